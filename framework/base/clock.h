// The clock with which all durations are measured.
#pragma once

#include <chrono>

namespace hexad::base {

/// Returns the time of the steady clock in seconds. Its zero point is the same for all processes on a machine.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hexad::base
