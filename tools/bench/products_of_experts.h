// Benchmark of grouped matrix products. The rates in framework/kernels/cuda/products/grouped_seconds.h come from it.
#pragma once

#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Prints two lines for each pass of the experts of several models with balanced load: one kernel for all experts, and
/// one dense product per expert.
void products_of_experts(CudaTimer& b, const kernels::KernelTable& k);

}  // namespace hexad::bench
