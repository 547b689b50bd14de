#include "framework/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/error.h"

namespace hexad::io {

namespace {

// True if open() for writing fails with this error although open() for reading may succeed.
bool forbids_writing(int error) { return error == EACCES || error == EPERM || error == EROFS; }

// True if flock() fails with this error because another holder's lock excludes the caller. Network file systems may
// return EACCES, as fcntl() may.
bool is_held(int error) { return error == EWOULDBLOCK || error == EACCES; }

// True if flock() fails with this error on a file system without locks.
bool lacks_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == ENOTTY;
}

}  // namespace

std::optional<FileLock> FileLock::take(const std::string& path, Mode mode, bool create) {
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW;
  // NFS grants an exclusive lock only to a descriptor that may write.
  const bool writes = create || mode == Mode::exclusive;
  int fd = ::open(path.c_str(), (writes ? O_RDWR : O_RDONLY) | (create ? O_CREAT : 0) | flags, 0666);
  if (fd < 0 && writes && !create && forbids_writing(errno)) fd = ::open(path.c_str(), O_RDONLY | flags);
  const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;  // the error does not concern the file
  if (fd < 0)
    base::fail(create || exhausted ? base::ExitCode::resource : base::ExitCode::data, path,
               ": cannot be opened: ", std::strerror(errno));
  FileLock lock(fd);
  if (::flock(fd, (mode == Mode::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return lock;
  const int error = errno;
  if (is_held(error)) return std::nullopt;
  if (!lacks_locks(error))
    base::fail(base::ExitCode::resource, path, ": cannot be locked: ", std::strerror(error),
               error == EBADF ? "; this file system locks only files that this process may write" : "");
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
