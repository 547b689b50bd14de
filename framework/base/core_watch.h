// Detects whether a thread that waits without giving its core away takes the core from a thread that needs it.
#pragma once

#include <chrono>

namespace hexad::base {

/// Tells whether others want the core that a thread runs on: the operating system has given it to them although the
/// thread had not gone to sleep. One thread's own.
class CoreWatch {
 public:
  /// Since the last call; true for another 50 ms, without asking again.
  bool is_wanted();

 private:
  std::chrono::steady_clock::time_point wanted_until_{};
  long taken_ = 0;
};

/// Waking a sleeping thread takes some microseconds, so that one which waits for less had better look again and again;
/// on a core that others want it would keep from working just whom it waits for. One thread's own.
class BriefSpin {
 public:
  explicit BriefSpin(std::chrono::microseconds limit) : limit_(limit) {}

  /// Asks ready() until it says yes, for the limit at most, or once if this core is wanted. Returns what it said last.
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
  static constexpr int looks = 16;  // asking for the time takes longer than asking whether it is ready

  std::chrono::microseconds limit_;
  CoreWatch core_;
  bool calm_ = false;  // the last spin was in vain, and this core wanted
};

}  // namespace hexad::base
