#include "framework/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/error.h"

namespace hexad::io {

std::optional<FileLock> FileLock::take(const std::string& path, Mode mode, bool create) {
  const int access = create ? O_RDWR | O_CREAT : O_RDONLY;
  const int fd = ::open(path.c_str(), access | O_CLOEXEC | O_NOFOLLOW, 0666);
  const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;  // the error does not concern the file
  if (fd < 0)
    base::fail(create || exhausted ? base::ExitCode::resource : base::ExitCode::data, path,
               ": cannot be opened: ", std::strerror(errno));
  FileLock lock(fd);
  if (::flock(fd, (mode == Mode::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return std::nullopt;
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hexad::io
