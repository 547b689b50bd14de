// Matrix products while other thread blocks occupy multiprocessors.
#pragma once

#include "framework/device/cuda/cuda_stream.h"
#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Prints lines of dense and grouped matrix products beside 0 to 16 spinning blocks (CTAs). Products first use all
/// multiprocessors, then leave one multiprocessor per block unused, then two. Products that use all multiprocessors
/// divide their tiles among them in advance, so an occupied multiprocessor can double their time. Two are left because
/// the products' blocks come in pairs within a part of the card (a GPC): a single spinning block also makes a second
/// multiprocessor unusable.
void products_beside_blocks(CudaTimer& b, const kernels::KernelTable& k, const device::cuda::Card& card);

}  // namespace hexad::bench
