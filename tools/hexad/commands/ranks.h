// Commands that may run on many ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe.h"

namespace hexad::app {

/// Makes the world and runs `body` in it. Alone, an exception travels up to main. With peers it is printed here and the
/// job ends with its exit code, at once: they may be waiting for this rank in a collective.
base::ExitCode on_all_ranks(const std::function<base::ExitCode(comm::World&)>& body,
                            const comm::CommEngine::Options& options = {});

/// Reads the recipe on all ranks of `world`, completes it for their machine, and sets the world's guards and priorities
/// as it says. Collective.
train::Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                             const layers::Registry& registry);

/// What a recipe says about them.
comm::Guards guards_of(const train::DistributedConfig& config);
/// From now on, limits and priorities of the world are those of the recipe.
void order_traffic(comm::World& world, const train::DistributedConfig& config);

}  // namespace hexad::app
