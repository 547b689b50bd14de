// One job at a time in a run directory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "framework/base/file_work.h"

namespace hexad::io {

/// Timing of a lock's renewal. Only tests change it; jobs use the values here.
struct LockTiming {
  std::chrono::milliseconds beat{5'000};       // between two renewals
  std::chrono::milliseconds patience{20'000};  // a lock of elsewhere that is not renewed so long belongs to nobody
};

/// Held by rank 0 from before the first step to the end.
///
/// The lock is a flock, which the system drops when the process dies. Some network file systems keep flocks to the
/// machine that took them, so a free flock proves nothing about a job elsewhere, and nobody can look for its process.
/// Therefore the file also says who holds it, and a thread of the holder renews it (a counter in it grows) while the
/// job lives. A job that finds a file of elsewhere with a free flock watches it: if it is renewed the job is refused,
/// else it takes over. No clocks are compared, so none has to be right. A holder that was suspended for longer, and so
/// taken over from, finds that out at its next look and must end.
class RunLock {
 public:
  /// Makes the directory if needed and locks it. Takes over the lock of a dead job: at once if it ran on this machine
  /// (host name and boot), else after `timing.patience`, which `note` is told; looking moves `work`. Throws
  /// Error(usage) naming host and process id of the job that has it; Error(resource) when the directory cannot be made
  /// or written.
  static RunLock acquire(
      const std::string& run_directory, const std::function<void(const std::string&)>& note = [](const std::string&) {},
      LockTiming timing = {}, const base::FileWork& work = {});

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  const std::string& path() const;
  /// Throws Error(usage) when another job has taken over, as of the last renewal.
  void require_held() const;
  /// Like require_held(), but checks now: call it before writing files that another job may have written.
  void require_held_now();

 private:
  class Holder;
  explicit RunLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace hexad::io
