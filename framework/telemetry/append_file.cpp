#include "framework/telemetry/append_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "framework/base/error.h"

namespace hexad::telemetry {

namespace fs = std::filesystem;

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// Blocks SIGPIPE in this thread during the lifetime of this object, and discards a SIGPIPE caused by this thread's
/// writes. The process's signal handler does not change.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const int saved = errno;
    if (!was_pending_) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

int write_all(int fd, std::string_view bytes, size_t* written, int patience_ms) {
  const NoSigpipe guard;
  size_t done = 0;
  int error = 0;
  while (done < bytes.size() && error == 0) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0) {
      done += n;
    } else if (n == 0) {
      error = EIO;
    } else if (errno == EAGAIN) {  // some launchers provide non-blocking pipes
      pollfd p{fd, POLLOUT, 0};
      const int ready = ::poll(&p, 1, patience_ms);
      if (ready == 0 || (ready < 0 && patience_ms >= 0)) error = EAGAIN;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (written) *written = done;
  return error;
}

AppendFile::AppendFile(const fs::path& path) : path_(path) {
  std::error_code ignored;  // ignored, because open() below reports the error
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) base::fail(base::ExitCode::resource, "cannot open ", path.string(), " for writing: ", reason(errno));
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  base::require(fd_ >= 0, "[append file] append() was called on a file that is not open; expected an open file");
  struct stat before {};
  const bool regular = ::fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  size_t written = 0;
  const int error = write_all(fd_, record, &written);
  if (error == 0) return;
  const bool torn = written > 0 && !(regular && ::ftruncate(fd_, before.st_size) == 0);
  base::fail(base::ExitCode::resource, "cannot write to ", path_.string(), ": ", reason(error),
             torn ? " (an incomplete record remains)" : "");
}

}  // namespace hexad::telemetry
