// Measurement of a rank's own speed while all ranks work.
#pragma once

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures matrix products and copies of memory on all ranks at the same time, in about `seconds`. A rank that shares
/// its core is therefore as slow as in a run. Kernels use `report.facts.threads` threads. Sets `product_rate` and
/// `copy_rate`. Collective over `world`.
void measure_rates(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

}  // namespace hexad::check_cluster
