// Measurement of each rank's compute and copy speed while all ranks work.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures matrix products and memory copies on all ranks at the same time, in about `seconds`. A rank that shares its
/// core is therefore as slow here as in a run. The kernels use `report.facts.threads` threads. Sets `product_rate` and
/// `copy_rate`. Collective over `world`.
void measure_rates(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

}  // namespace hexad::check_cluster
