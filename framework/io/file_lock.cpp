#include "framework/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/lock_problem.h"

namespace hexad::io {

namespace {

// True if open() for reading may succeed although open() for writing failed with `error`.
bool forbids_writing(int error) { return error == EACCES || error == EPERM || error == EROFS; }

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
  const base::LockProblem problem = base::lock_problem(error);
  if (problem == base::LockProblem::held) return std::nullopt;
  if (problem == base::LockProblem::other)
    base::fail(base::ExitCode::resource, path, ": cannot be locked: ", std::strerror(error), base::lock_hint(error));
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
