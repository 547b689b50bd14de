// Options of a recipe for the traffic between ranks, for the code that moves it.
#pragma once

#include "parallel/comm/device_group.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

comm::Priorities priorities_of(const DistributedConfig& config);
/// For the ranks of `world` with `context`'s device.
comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context);

/// Returns the guards that a recipe sets.
comm::Guards guards_of(const DistributedConfig& config);
/// Sets the limits and priorities of the world as the recipe says.
void order_traffic(comm::World& world, const DistributedConfig& config);

}  // namespace hexad::train
