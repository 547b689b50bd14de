// Advisory locks (flock). The operating system releases them when their holder dies.
#pragma once

#include <optional>
#include <string>

namespace hexad::io {

/// Holds a lock on a file during its lifetime. Two FileLocks exclude each other even within one process.
class FileLock {
 public:
  enum class Mode { shared, exclusive };

  /// Opens and locks a file without waiting. Returns nullopt if another holder's lock excludes this one. Throws
  /// Error(data) if the file cannot be opened, and Error(resource) if it cannot be created. On a file system without
  /// locks, the call succeeds but excludes no other holder.
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
