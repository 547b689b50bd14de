// Measurement of collectives on the process groups that layouts use.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures, in about `seconds`, collectives of three kinds of groups:
/// - intra: the ranks of each node; omitted if every node has one rank
/// - inter: the ranks with the same index on all nodes; omitted on a single node, and if nodes have different numbers
///   of ranks
/// - all: all ranks; omitted on a single node, and if every node has one rank
///
/// Adds `collectives` to `report`. Collective over `world`.
void measure_collectives(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

}  // namespace hexad::check_cluster
