// Benchmarks of matrix products on a GPU.
#pragma once

#include "framework/device/cuda/cuda_stream.h"
#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Measures grouped matrix products. The rates in framework/kernels/cuda/products/grouped_seconds.h come from this
/// benchmark. Prints two lines for each pass of the experts of several models with balanced load: one kernel for all
/// experts, and one dense product per expert.
void products_of_experts(CudaTimer& b, const kernels::KernelTable& k);

/// Measures dense and grouped matrix products beside 0, 1, 2, 4, 8 or 16 spinning blocks (CTAs), and prints a line for
/// each. Beside n > 0 blocks, each product is measured three times: with 0, n and 2 * n multiprocessors left unused.
///
/// A product that uses all multiprocessors divides its tiles among them in advance. An occupied multiprocessor can
/// therefore double the product's time. The reason for 2 * n: the blocks of a product are launched in pairs (clusters)
/// within one GPC. A spinning block therefore makes a second multiprocessor unusable, too.
void products_beside_blocks(CudaTimer& b, const kernels::KernelTable& k, const device::cuda::Card& card);

}  // namespace hexad::bench
