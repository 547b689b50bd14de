// The clock that all durations are measured with.
#pragma once

#include <chrono>

namespace hexad::base {

/// Seconds of the steady clock, since some point in the past that all processes of a machine share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hexad::base
