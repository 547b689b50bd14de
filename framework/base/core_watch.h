// Detection of spinning threads that keep a core from threads that need it.
#pragma once

#include <chrono>

namespace hexad::base {

/// Detects that other threads want this thread's core: this thread did not go to sleep, but the operating system gave
/// its core to another thread. For use by one thread.
class CoreWatch {
 public:
  /// Returns true if other threads wanted the core since the last call. After that, returns true for 50 ms without
  /// asking the system.
  bool is_wanted();

 private:
  std::chrono::steady_clock::time_point wanted_until_{};
  long taken_ = 0;
};

/// Spins for a short time, because waking a sleeping thread takes some microseconds. Does not spin on a core that other
/// threads want, because the awaited thread may need that core. For use by one thread.
class BriefSpin {
 public:
  explicit BriefSpin(std::chrono::microseconds limit) : limit_(limit) {}

  /// Calls ready() until it returns true or the limit has passed; only once if the core is wanted. Returns the last
  /// result.
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
  static constexpr int looks = 16;  // calls of ready() between two readings of the clock, which take longer

  std::chrono::microseconds limit_;
  CoreWatch core_;
  bool calm_ = false;  // true if ready() was false at the end of the last spin and other threads wanted the core
};

}  // namespace hexad::base
