// A folder for files that nobody needs afterwards.
#pragma once

#include <sys/types.h>

#include <string>

namespace hexad::verify {

/// Made under TMPDIR, and gone when the object is or when this process ends, however it ends: a child process waits for
/// that, and for the end of all other children. Throws Error(resource) when it cannot be made.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int alive_ = -1;  // open as long as a process needs the folder
  pid_t remover_ = -1;
};

}  // namespace hexad::verify
