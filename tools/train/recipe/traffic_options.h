// Options for the traffic between ranks, made from a recipe.
#pragma once

#include "parallel/comm/device_group.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

comm::Priorities priorities_of(const DistributedConfig& config);
/// Returns the options of groups of `world` whose ranks each have the device of `context`.
comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context);

/// Returns the guards that a recipe sets.
comm::Guards guards_of(const DistributedConfig& config);
/// Sets limits and priorities of the world from the recipe.
void order_traffic(comm::World& world, const DistributedConfig& config);

}  // namespace hexad::train
