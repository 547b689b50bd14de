// Points at which a test, or HEXAD_FAULT, may make a save fail.
#pragma once

#include <functional>
#include <string_view>

namespace hexad::io {

/// Called with the name of each file boundary that a save passes. It may throw, and the save then fails there as if the
/// disk had failed, or it may end the process.
using FaultHook = std::function<void(std::string_view point)>;

inline void reach(const FaultHook& hook, std::string_view point) {
  if (hook) hook(point);
}

}  // namespace hexad::io
