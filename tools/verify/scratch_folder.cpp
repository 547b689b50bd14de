#include "tools/verify/scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "framework/base/error.h"

namespace hexad::verify {
namespace {

void remove(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Removes the folder once all processes have closed the other end of the pipe `file`. Starts a new session, so that
// this process gets no signals meant for the program. Closes inherited files, because other processes may wait until
// these are closed.
[[noreturn]] void remove_at_the_end_of_file(int file, const std::string& path) {
  ::setsid();
  ::dup2(file, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  remove(path);
  ::_exit(0);
}

}  // namespace

ScratchFolder::ScratchFolder() : path_((std::filesystem::temp_directory_path() / "hexad-verify-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr)
    base::fail(base::ExitCode::resource, "cannot create the folder ", path_, ": ", std::strerror(errno),
               "; set TMPDIR to a writable folder");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) == 0) {
    remover_ = ::fork();
    if (remover_ == 0) remove_at_the_end_of_file((::close(ends[1]), ends[0]), path_);
    ::close(ends[0]);
    liveness_pipe_ = ends[1];
  }
  if (remover_ > 0) return;
  const int error = errno;
  remove(path_);
  base::fail(base::ExitCode::resource, "cannot start a child process to remove ", path_, ": ", std::strerror(error),
             "; raise the limits of processes and open files (ulimit -u, -n)");
}

ScratchFolder::~ScratchFolder() {
  ::close(liveness_pipe_);
  while (::waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace hexad::verify
