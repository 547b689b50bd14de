// A folder for files that nobody needs afterwards.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "framework/base/error.h"

namespace hexad::verify {

/// Made under TMPDIR, removed with the object by the process that made it.
class ScratchFolder {
 public:
  ScratchFolder() {
    path_ = (std::filesystem::temp_directory_path() / "hexad-verify-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr)
      base::fail(base::ExitCode::resource, "cannot make a folder ", path_, ": ", std::strerror(errno));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace hexad::verify
