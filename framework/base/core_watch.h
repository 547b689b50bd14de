// Detection of spinning threads that keep a core from threads that need it.
#pragma once

#include <chrono>

namespace hexad::base {

/// Detects that other threads need this thread's core: the operating system gave the core to another thread although
/// this thread did not sleep. For use by one thread.
class CoreWatch {
 public:
  /// Returns true if other threads needed the core since the last call. After that, returns true for 50 ms without
  /// asking the system.
  bool is_wanted();

 private:
  std::chrono::steady_clock::time_point wanted_until_{};
  long taken_ = 0;
};

/// Spins for a short time, because waking a sleeping thread takes some microseconds. Does not spin on a core that other
/// threads need, because the awaited thread may be one of them. For use by one thread.
class BriefSpin {
 public:
  explicit BriefSpin(std::chrono::microseconds limit) : limit_(limit) {}

  /// Calls ready() until it returns true or the time limit has passed. Calls it only once if other threads need the
  /// core. Returns the last result of ready().
  template <class Ready>
  bool until(const Ready& ready) {
    if (ready()) return true;
    if (calm_ && core_.is_wanted()) return false;
    const auto start = std::chrono::steady_clock::now();
    do
      for (int look = 0; look < looks; ++look) {
        __builtin_ia32_pause();
        if (ready()) return true;
      }
    while (std::chrono::steady_clock::now() - start < limit_);
    calm_ = core_.is_wanted();
    return ready();
  }

 private:
  static constexpr int looks = 16;  // calls of ready() per reading of the clock, which takes longer than a call

  std::chrono::microseconds limit_;
  CoreWatch core_;
  bool calm_ = false;  // true if ready() was false at the end of the last spin and other threads needed the core
};

}  // namespace hexad::base
