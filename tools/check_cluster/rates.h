// Measurement of each rank's compute and copy speed while all ranks work.
#pragma once

#include "framework/device/context.h"
#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Measures matrix products and memory copies on all ranks at the same time, in about `seconds`. A rank that shares its
/// core is therefore as slow as in a run. The kernels use `report.facts.threads` threads. Sets `product_rate` and
/// `copy_rate`. Collective over `world`.
void measure_rates(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

/// Measures bf16 products on the GPUs of all ranks at the same time, which takes a fraction of a second. Sets
/// `card_product_rate` if the rank has a GPU. If the GPU fails, sets `facts` as if the rank had no GPU.
/// `options` choose the GPU; `host` is a CPU device. Collective over `world`.
void measure_card_rate(RankReport& report, const comm::ProcessGroup& world, device::Device host,
                       const device::ContextOptions& options);

}  // namespace hexad::check_cluster
