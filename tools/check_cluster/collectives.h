// Measurement of collectives of the groups that layouts use.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures collectives of the ranks of each node (intra), of ranks at the same place of all nodes (inter) and of all
/// ranks (all), in about `seconds`. Leaves out inter if nodes have different numbers of ranks. Adds `collectives` to
/// `report`. Collective over `world`.
void measure_collectives(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

}  // namespace hexad::check_cluster
