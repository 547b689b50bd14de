#include "framework/telemetry/text_output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "framework/base/error.h"
#include "framework/telemetry/append_file.h"

namespace hexad::telemetry {

namespace {

/// True if the descriptor `fd` of the parent process is a terminal other than this process's `fd`. Ranks of Open MPI
/// need this function, because their own descriptors do not show whether mpirun prints to a terminal. Open MPI gives
/// its first rank a pseudo-terminal even if the output of mpirun goes to a file. Open MPI turns standard error into a
/// pipe, whose contents mpirun prints. On the first machine, mpirun is the parent of the ranks. Returns false if the
/// parent is a shell with the same terminal, or a daemon without a terminal. The rank then writes plain lines.
bool launcher_shows_a_terminal(int fd) {
  const std::string path = base::cat("/proc/", ::getppid(), "/fd/", fd);
  struct stat mine {
  }, parents{};
  if (::fstat(fd, &mine) != 0 || ::stat(path.c_str(), &parents) != 0) return false;
  if (!S_ISCHR(parents.st_mode) || parents.st_rdev == mine.st_rdev) return false;
  const int parents_fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (parents_fd < 0) return false;
  const bool terminal = ::isatty(parents_fd) == 1;
  ::close(parents_fd);
  return terminal;
}

bool understands_control_codes(int fd) {
  const char* term = std::getenv("TERM");
  if (term && std::string_view(term) == "dumb") return false;
  if (!std::getenv("OMPI_COMM_WORLD_RANK")) return ::isatty(fd) == 1;
  struct stat s {};
  const bool pipe = ::fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISSOCK(s.st_mode));
  return (pipe || ::isatty(fd) == 1) && launcher_shows_a_terminal(fd);
}

/// Opens the pipe or terminal of a descriptor a second time, with O_NONBLOCK. Setting O_NONBLOCK on the descriptor
/// itself would affect its other users. Uses the descriptor itself if the second open fails, or if the descriptor is
/// not a pipe or terminal. A file, for example, has a position and never blocks.
class NonBlocking {
 public:
  explicit NonBlocking(int fd) : shared_(fd) {
    struct stat s {};
    if (::fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || ::isatty(fd) == 1))
      own_ = ::open(base::cat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ~NonBlocking() {
    if (own_ >= 0) ::close(own_);
  }
  NonBlocking(const NonBlocking&) = delete;
  NonBlocking& operator=(const NonBlocking&) = delete;
  int fd() const { return own_ >= 0 ? own_ : shared_; }

 private:
  int shared_, own_ = -1;
};

}  // namespace

TextOutput::TextOutput(int fd, BlockedReader blocked_reader)
    : fd_(fd), blocked_reader_(blocked_reader), terminal_(understands_control_codes(fd)) {}

int TextOutput::width() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void TextOutput::write(std::string_view text) {
  if (error_ != 0) return;
  if (blocked_reader_ == BlockedReader::drop)
    write_or_drop(text);
  else
    error_ = write_all(fd_, text);
}

void TextOutput::require_written() const {
  if (error_ == 0 || error_ == EPIPE) return;
  throw std::system_error(error_, std::generic_category(), fd_ == STDERR_FILENO ? "standard error" : "standard output");
}

void TextOutput::write_or_drop(std::string_view text) {
  const NonBlocking out(fd_);
  // Does not wait again if the previous text was not accepted.
  const int patience_ms = refused_ ? 0 : 1000;
  size_t written = 0;
  const int error = write_all(out.fd(), torn_ ? base::cat("\n", text) : std::string(text), &written, patience_ms);
  if (error != EAGAIN) error_ = error;
  refused_ = error == EAGAIN;
  torn_ = refused_ && (torn_ || written > 0);
}

}  // namespace hexad::telemetry
