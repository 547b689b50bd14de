// A folder for temporary files.
#pragma once

#include <sys/types.h>

#include <string>

namespace hexad::verify {

/// A folder under TMPDIR. The folder is removed when the object is destroyed, or when this process ends for any reason.
/// A child process removes the folder, after all other children have ended. Throws Error(resource) if the folder or
/// this child process cannot be made.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int liveness_pipe_ = -1;  // write end of a pipe; the folder is removed once no process has this end open
  pid_t remover_ = -1;
};

}  // namespace hexad::verify
