// Detection of other threads that need the core on which a thread spins.
#pragma once

#include <chrono>

namespace hexad::base {

/// Detects that other threads need the core of this thread: the operating system gave the core to another thread
/// although this thread did not sleep. Not thread-safe.
class CoreWatch {
 public:
  /// Returns true if other threads have needed the core since the last query of the operating system. The first call
  /// covers the time since the calling thread started. After a query with the result true, returns true for 50 ms
  /// without another query.
  bool is_wanted();

 private:
  std::chrono::steady_clock::time_point wanted_until_{};
  long taken_ = 0;
};

/// Spins for a short time before a thread sleeps, because waking a sleeping thread takes several microseconds. A spin
/// is skipped if other threads need the core, because the awaited thread may be one of them. It is skipped only if they
/// also needed the core when the last spin reached its limit. Not thread-safe.
class BriefSpin {
 public:
  explicit BriefSpin(std::chrono::microseconds limit) : limit_(limit) {}

  /// Calls ready() until it returns true or the time limit has passed. Calls ready() only once if the spin is skipped.
  /// Returns the last result of ready().
  template <class Ready>
  bool until(const Ready& ready) {
    if (ready()) return true;
    if (contended_ && core_.is_wanted()) return false;
    const auto start = std::chrono::steady_clock::now();
    do
      for (int look = 0; look < calls_per_clock_reading; ++look) {
        __builtin_ia32_pause();
        if (ready()) return true;
      }
    while (std::chrono::steady_clock::now() - start < limit_);
    contended_ = core_.is_wanted();
    return ready();
  }

 private:
  static constexpr int calls_per_clock_reading = 16;  // calls of ready() per (slow) reading of the clock

  std::chrono::microseconds limit_;
  CoreWatch core_;
  bool contended_ = false;  // true if other threads needed the core at the end of the last spin that reached the limit
};

}  // namespace hexad::base
