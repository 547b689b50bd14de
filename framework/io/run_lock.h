// A lock that admits only one job at a time to a run directory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "framework/base/file_work.h"

namespace hexad::io {

/// Timing of the renewal of a lock. Only tests change it; jobs use these defaults.
struct LockTiming {
  std::chrono::milliseconds beat{5'000};       // time between two renewals
  std::chrono::milliseconds patience{20'000};  // time without renewal after which another machine's lock is taken over
};

/// Lock of a run directory. Rank 0 holds it from before the first step to the end of the job.
///
/// The lock is a flock, which the operating system releases when the process dies. On some network file systems, a
/// flock has no effect on other machines. A job on another machine may then hold the lock even if the flock is free.
/// The processes of another machine cannot be checked. Therefore the file also names the holder of the lock. While the
/// job runs, a thread of the holder renews the file: it increments a counter in the file.
///
/// A job watches a file that names another machine if the flock of the file is free. The job is refused if the file is
/// renewed. Otherwise the job takes the lock over. The clocks of machines need not agree, because they are not
/// compared. A holder that was suspended for longer than the patience may have lost the lock. Such a holder detects the
/// loss when it next reads the file, and must then end.
class RunLock {
 public:
  /// Creates the directory if it does not exist, and locks it. Takes the lock over if the job that held the lock is
  /// dead. The takeover happens immediately if the dead job ran on the same machine (same host name and boot),
  /// otherwise after `timing.patience`. The wait and the takeover after it are reported to `note`, and the progress of
  /// the wait to `work`. Throws Error(usage) that names the host and process id of the holder if another job holds the
  /// lock. Throws Error(resource) if the directory cannot be created or written. Throws Error(usage) instead if the
  /// name of the directory is too long or leads through too many links.
  static RunLock acquire(
      const std::string& run_directory, const std::function<void(const std::string&)>& note = [](const std::string&) {},
      LockTiming timing = {}, const base::FileWork& work = {});

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  const std::string& path() const;
  /// Throws Error(usage) if a renewal or require_held_now() has found that another job has taken the lock over.
  void require_held() const;
  /// Like require_held(), but reads the file now. Call require_held_now() before writing to files that another job may
  /// have written.
  void require_held_now();

 private:
  class Holder;
  explicit RunLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace hexad::io
