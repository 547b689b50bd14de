// Advisory locks (flock). The operating system releases the locks of a process when the process ends.
#pragma once

#include <optional>
#include <string>

namespace hexad::io {

/// Holds a lock on a file during its lifetime. An exclusive FileLock excludes all other FileLocks of the file, even
/// within one process.
class FileLock {
 public:
  enum class Mode { shared, exclusive };

  /// Opens and locks a file without waiting. With `create`, creates the file if it does not exist. Returns nullopt if
  /// another holder's lock excludes this lock. On a file system without locks, the call succeeds but excludes no other
  /// holder. Throws:
  /// - Error(resource) if the file cannot be opened and `create` is true, or if file descriptors or memory are
  ///   exhausted
  /// - Error(data) if the file cannot be opened for another reason
  /// - Error(resource) if the file system has locks but cannot lock the file. An example is an exclusive lock on NFS if
  ///   the file is not writable
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
