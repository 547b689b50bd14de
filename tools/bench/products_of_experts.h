// Grouped matrix products by both implementations, for the rates in framework/kernels/cuda/products/grouped_seconds.h.
#pragma once

#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Prints two lines for each pass of the experts of several models with balanced load: all experts in one kernel, and
/// one dense product per expert.
void products_of_experts(CudaTimer& b, const kernels::KernelTable& k);

}  // namespace hexad::bench
