// Generations of a run directory: each start of a job takes the next number, and jobs with lower numbers may not write.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace hexad::io {

/// Number of a job's start in its run directory.
///
/// A RunLock admits one job at a time. However, while a job is suspended or cut off from the file system, a second job
/// may take the lock over. When the first job continues, it must not write, even if the second job has ended and
/// released the lock. Therefore the file `generation` in the run directory contains the number of the newest start. The
/// number only grows. A job compares this number with its own number before it writes checkpoints or metrics.
///
/// Commits and take() hold the flock of the file `generation.lock`. No job can start between the comparison and the
/// rename of a checkpoint if flocks of the file system work across machines. Otherwise, a job can start undetected in
/// this short time.
class RunGeneration {
 public:
  /// Takes the next number of the directory, which must exist. Only the holder of the RunLock may call this function.
  /// Waits up to `patience` for a commit or start of another job. Throws Error(usage) if this commit or start does not
  /// end in that time. Throws Error(data) if the file does not contain a number, and Error(resource) if it cannot be
  /// read or written.
  static RunGeneration take(const std::string& run_directory,
                            std::chrono::milliseconds patience = std::chrono::seconds(20));
  /// Makes the object for another rank, from the `number` that rank 0 has taken.
  RunGeneration(std::string run_directory, int64_t number);

  int64_t number() const { return number_; }
  /// Waits up to `patience` until the file has the number that rank 0 has taken. A network file system may show the
  /// number late. Throws Error(resource) that names `node` if the number does not appear: the nodes then do not share
  /// the directory. Cannot detect a directory that only this node has and that contains the same number. Throws like
  /// require_current() if a newer job has started, or if the file remains damaged or unreadable.
  void require_visible(const std::string& node, std::chrono::milliseconds patience = std::chrono::seconds(60)) const;
  /// Throws Error(usage) if a newer job has started in the directory, or if the file is gone. Throws Error(data) if the
  /// file does not contain a number, and Error(resource) if it cannot be read.
  void require_current() const;
  /// Like require_current(), but does nothing if the file cannot be read or does not contain a number. Use this check
  /// for small writes whose failure does not end a run, such as writes of metrics.
  void require_not_superseded() const;
  /// Calls `write` if require_current() does not throw. During the call, take() of another job waits if flocks work
  /// between the two machines. Throws Error(usage) also if another commit or start does not end within 20 s.
  void run_if_current(const std::function<void()>& write) const;

 private:
  std::string path() const { return folder_ + "/generation"; }

  std::string folder_;
  int64_t number_;
};

}  // namespace hexad::io
