// One job at a time in a run directory.
#pragma once

#include <string>

#include "framework/io/file_lock.h"

namespace hexad::io {

/// Held by rank 0 from before the first step to the end. The lock is both a flock, which the system drops when the
/// process dies, and a file with host and process id, for file systems whose flock does not reach other machines.
class RunLock {
 public:
  /// Makes the directory if needed and locks it. Throws Error(usage) naming host and process id of the job that has it,
  /// also when that job was on another host, where nobody can tell whether it lives; Error(resource) when the directory
  /// cannot be made or written. What a dead job of this host left is taken over.
  static RunLock acquire(const std::string& run_directory);

  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  const std::string& path() const { return path_; }

 private:
  RunLock(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileLock lock_;
};

}  // namespace hexad::io
