// Advisory locks (flock) that the system drops when their holder dies.
#pragma once

#include <optional>
#include <string>

namespace hexad::io {

/// Holds a lock on a file as long as it lives. Two FileLocks exclude each other even inside one process.
class FileLock {
 public:
  enum class Mode { shared, exclusive };

  /// Opens and locks without waiting. Nothing when another holder excludes it. A file that cannot be opened throws
  /// Error(data); one that cannot be made, Error(resource). Where the file system has no locks, the lock is held in
  /// name only.
  static std::optional<FileLock> take(const std::string& path, Mode mode, bool create = false);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  int descriptor() const { return fd_; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace hexad::io
