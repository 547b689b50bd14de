// Options for communication between ranks and the traffic of their groups, derived from a recipe.
#pragma once

#include <vector>

#include "parallel/comm/device_group.h"
#include "parallel/comm/world.h"
#include "parallel/mesh/mesh.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

comm::Priorities priorities_of(const DistributedConfig& config);
/// Returns the traffic that may overlap the matrix products of a rank, on `world` ranks:
/// - pipelines: messages from and to both neighbours.
/// - gradients: reductions during backward. With zero 0 and 1, a step reduces gradients only in its last micro-batch.
///   These reductions count only if a rank has at most four micro-batches.
/// - zero 3: gathers of weights.
/// - tp: sums of one piece of a product while the next piece is computed; with sp, messages to and from all peers.
/// - experts: all-to-alls beside another micro-batch, other chunks or shared experts. All-to-alls beside other chunks
///   or shared experts do not count if schedule.moe.compute_share is less than 1.
///
/// Traffic that products wait for is not included: ring attention, all-to-alls without overlap.
std::vector<comm::TrafficBeside> traffic_beside_products(const Recipe& recipe, int world);

/// Returns the traffic of all groups of this rank of `world`, without duplicates. The traffic consists of collectives
/// of the mesh's groups and, under zero 3, of the groups that gather weights. It also includes the messages of
/// pipelines, sequences and tensor ranks. `shared` is as in Mesh. Does not communicate.
std::vector<comm::GroupTraffic> traffic_of_groups(const Recipe& recipe, const comm::ProcessGroup& world,
                                                  const mesh::SharedPieces& shared);

/// Returns the options of device groups of `world`. `context` is this rank's device. If the ranks are threads,
/// distributed.device_collectives: auto means host.
comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context);

/// Returns the guards of collectives that the recipe requests: watchdog and checks.
comm::Guards guards_of(const DistributedConfig& config);
/// Sets the traffic limits and priorities of `world` from the recipe.
void order_traffic(comm::World& world, const DistributedConfig& config);

}  // namespace hexad::train
