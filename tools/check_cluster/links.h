// Measurement of latency and bandwidth between pairs of ranks.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures messages from this rank to each rank that meetings_of() pairs it with, in about `seconds`. Adds `links` and
/// `damaged_from` to `report`. Collective over `world`.
void measure_links(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

}  // namespace hexad::check_cluster
