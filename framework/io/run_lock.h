// Lock that admits one job at a time to a run directory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "framework/base/file_work.h"

namespace hexad::io {

/// Timing of a lock's renewal. Only tests change it; jobs use these defaults.
struct LockTiming {
  std::chrono::milliseconds beat{5'000};       // time between two renewals
  std::chrono::milliseconds patience{20'000};  // a lock of another machine is abandoned after this time without renewal
};

/// Lock of a run directory. Rank 0 holds it from before the first step to the end.
///
/// The lock is a flock, which the system releases when the process dies. On some network file systems a flock has no
/// effect on other machines. A free flock then does not prove that no job of another machine is running. The processes
/// of another machine cannot be checked either. Therefore the file also names its holder, and a thread of the holder
/// renews it (increments a counter in it) while the job runs.
///
/// A job that finds a file of another machine with a free flock watches the file. If the file is renewed, the job is
/// refused; otherwise it takes over. No clocks are compared, so they need not agree. A holder that was suspended for
/// longer than the patience may have lost the lock. Such a holder detects the loss at its next look and must end.
class RunLock {
 public:
  /// Creates the directory if needed and locks it. Takes over the lock of a dead job: immediately if that job ran on
  /// the same machine (host name and boot), otherwise after `timing.patience`. Reports the wait to `note` and its
  /// progress to `work`. Throws Error(usage) with host and process id of the job that holds the lock. Throws
  /// Error(resource) if the directory cannot be created or written.
  static RunLock acquire(
      const std::string& run_directory, const std::function<void(const std::string&)>& note = [](const std::string&) {},
      LockTiming timing = {}, const base::FileWork& work = {});

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  const std::string& path() const;
  /// Throws Error(usage) if another job had taken over at the last renewal.
  void require_held() const;
  /// Like require_held(), but checks now. Call it before writing to files that another job may have written.
  void require_held_now();

 private:
  class Holder;
  explicit RunLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace hexad::io
