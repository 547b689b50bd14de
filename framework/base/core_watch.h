// Detects whether a thread that waits without giving its core away takes the core from a thread that needs it.
#pragma once

#include <chrono>

namespace hexad::base {

/// Detects that other threads want this thread's core: the operating system has given the core to them although this
/// thread had not gone to sleep. For use by one thread.
class CoreWatch {
 public:
  /// Since the last call; true for another 50 ms, without asking again.
  bool is_wanted();

 private:
  std::chrono::steady_clock::time_point wanted_until_{};
  long taken_ = 0;
};

/// Spins for a short time, because waking a sleeping thread takes some microseconds. Does not spin on a core that other
/// threads want: one of them may be the thread that is waited for. For use by one thread.
class BriefSpin {
 public:
  explicit BriefSpin(std::chrono::microseconds limit) : limit_(limit) {}

  /// Calls ready() until it is true, at most for the limit, or once if this core is wanted. Returns the last result.
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
  bool calm_ = false;  // the last spin found ready() false and this core wanted
};

}  // namespace hexad::base
