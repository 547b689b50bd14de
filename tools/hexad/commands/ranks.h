// Commands that may run on many ranks.
#pragma once

#include <functional>

#include "framework/base/error.h"
#include "parallel/comm/world.h"

namespace hexad::app {

/// Makes the world and runs `body` in it. Alone, an exception travels up to main. With peers it is printed here and the
/// job ends at once with its exit code: they may be waiting for this rank in a collective.
base::ExitCode on_all_ranks(const std::function<base::ExitCode(comm::World&)>& body);

}  // namespace hexad::app
