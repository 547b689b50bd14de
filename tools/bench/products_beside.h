// Benchmark of matrix products while other thread blocks occupy multiprocessors.
#pragma once

#include "framework/device/cuda/cuda_stream.h"
#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Prints lines of dense and grouped matrix products that run at the same time as 0, 1, 2, 4, 8 or 16 spinning blocks
/// (CTAs). With spinning blocks, each product is measured three times: on all multiprocessors, with one unused
/// multiprocessor per spinning block, and with two.
///
/// Products that use all multiprocessors divide their tiles among them in advance, so an occupied multiprocessor can
/// double their time. Two unused multiprocessors are measured because the products' blocks come in pairs within a part
/// of the card (a GPC): a single spinning block also makes a second multiprocessor unusable.
void products_beside_blocks(CudaTimer& b, const kernels::KernelTable& k, const device::cuda::Card& card);

}  // namespace hexad::bench
