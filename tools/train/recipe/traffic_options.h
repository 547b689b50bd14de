// Options for the traffic between ranks, made from a recipe.
#pragma once

#include <vector>

#include "parallel/comm/device_group.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

comm::Priorities priorities_of(const DistributedConfig& config);
/// Returns the traffic that a rank may have in flight while products compute, on `world` ranks:
/// - pipelines: messages from and to both neighbours. Receives are posted before the work that precedes them.
/// - gradients: reductions during backward. With zero 0 and 1, only the last micro-batch has them. They count if a rank
///   has at most four micro-batches, because they then overlap at least a sixth of the products.
/// - zero 3: gathers of weights ahead of their use.
/// - tp: sums of a product's pieces while the next piece is computed; under sp messages to and from all peers.
/// - experts: all-to-alls beside the other micro-batch, other chunks or shared experts. All-to-alls beside chunks do
/// not
///   count if schedule.moe.compute_share leaves multiprocessors to communication.
///
/// Excludes traffic that products wait for, such as ring attention and all-to-alls that overlap nothing.
std::vector<comm::TrafficBeside> traffic_beside_products(const Recipe& recipe, int world);
/// Returns the options of groups of `world` whose ranks each have the device of `context`.
comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context);

/// Returns the guards that a recipe sets.
comm::Guards guards_of(const DistributedConfig& config);
/// Sets limits and priorities of the world from the recipe.
void order_traffic(comm::World& world, const DistributedConfig& config);

}  // namespace hexad::train
