// Points at which tests, or HEXAD_FAULT, can make a save fail.
#pragma once

#include <functional>
#include <string_view>

namespace hexad::io {

/// Function that is called with the name of each file boundary that a save passes. It may throw, which makes the save
/// fail as if the disk had failed, or it may end the process.
using FaultHook = std::function<void(std::string_view point)>;

inline void reach(const FaultHook& hook, std::string_view point) {
  if (hook) hook(point);
}

}  // namespace hexad::io
