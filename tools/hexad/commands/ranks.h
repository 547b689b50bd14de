// Commands that may run on many ranks.
#pragma once

#include <functional>

#include "framework/base/error.h"
#include "parallel/comm/world.h"
#include "tools/train/job.h"

namespace hexad::app {

/// Makes the world and runs `body` in it. Alone, an exception travels up to main. With peers it is printed here and the
/// job ends with its exit code, at once: they may be waiting for this rank in a collective.
base::ExitCode on_all_ranks(const std::function<base::ExitCode(comm::World&)>& body,
                            const comm::CommEngine::Options& options = {});

}  // namespace hexad::app
