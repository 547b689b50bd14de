// The clock for all measured durations.
#pragma once

#include <chrono>

namespace hexad::base {

/// Returns seconds of the steady clock. Its zero point is the same for all processes of a machine.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hexad::base
