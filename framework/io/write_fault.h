// The points at which tests, or HEXAD_FAULT, can make a save fail.
#pragma once

#include <functional>
#include <string_view>

namespace hexad::io {

/// Function that is called with the name of each point that a save or a retention passes, such as "shard: file
/// written". The function may end the process. It may also throw. An exception has the effect of a disk failure at this
/// point.
using FaultHook = std::function<void(std::string_view point)>;

inline void reach(const FaultHook& hook, std::string_view point) {
  if (hook) hook(point);
}

}  // namespace hexad::io
