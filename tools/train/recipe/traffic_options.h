// Options of a recipe for the traffic between ranks, for the code that moves it.
#pragma once

#include "parallel/comm/device_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

comm::Priorities priorities_of(const DistributedConfig& config);
/// For the ranks of `world` with `context`'s device.
comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context);

}  // namespace hexad::train
