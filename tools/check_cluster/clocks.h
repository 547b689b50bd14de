// Measurement of the offsets between the nodes' clocks.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of nodes whose clocks are compared. On larger clusters, the compared nodes are evenly spaced.
inline constexpr int max_clocks = 256;

/// Compares the clocks of at most max_clocks nodes with the clock of rank 0's node. Sets `clock_offset` and
/// `clock_error` on the first rank of each compared node. Collective over `world`.
void measure_clocks(RankReport& report, const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::check_cluster
