// Generations of a run directory: each start of a job takes the next number, and jobs with older numbers may not write.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace hexad::io {

/// Number of a job's start in its run directory.
///
/// A RunLock admits one job at a time, but only as far as its flock and its renewals reach. A job that was partitioned
/// from the file system or suspended, and whose place another job has taken, still has to be stopped when it returns,
/// even if the other job has ended and its lock is gone. Therefore the file `generation` in the run directory holds the
/// number of the newest start. It only grows. A job compares it with its own number before each write.
///
/// Commits also hold the flock of the file `generation.lock`, as take() does. On file systems whose flocks reach all
/// machines, no start can come between the comparison and the rename of a checkpoint. On other file systems, the time
/// between these two operations remains.
class RunGeneration {
 public:
  /// Takes the next number of the directory, which must exist. Only the holder of the RunLock may call it. Waits up to
  /// `patience` for a commit of another job. Throws Error(usage) if the commit does not end in that time. Throws
  /// Error(data) if the file does not contain a number, and Error(resource) if it cannot be written.
  static RunGeneration take(const std::string& run_directory,
                            std::chrono::milliseconds patience = std::chrono::seconds(20));
  /// Makes the generation of a rank whose rank 0 has taken `number`.
  RunGeneration(std::string run_directory, int64_t number);

  int64_t number() const { return number_; }
  /// Throws Error(usage) if a newer job has started in the directory, or if the file is gone. Throws Error(data) if the
  /// file does not contain a number, and Error(resource) if it cannot be read.
  void require_current() const;
  /// Like require_current(), but does nothing if the file cannot be read or does not contain a number. For small writes
  /// whose failure does not end a run, such as metrics.
  void require_not_superseded() const;
  /// Calls `write` if require_current() does not throw. No job can call take() meanwhile. Throws like take().
  void while_current(const std::function<void()>& write) const;

 private:
  std::string path() const { return folder_ + "/generation"; }

  std::string folder_;
  int64_t number_;
};

}  // namespace hexad::io
