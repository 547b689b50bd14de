// Products while other thread blocks hold multiprocessors.
#pragma once

#include "framework/device/cuda/cuda_stream.h"
#include "tools/bench/cuda_timer.h"

namespace hexad::bench {

/// Prints lines of dense and grouped products beside 0 to 16 spinning blocks (CTAs): with all multiprocessors, then
/// with a reserve of as many as there are blocks, then of twice as many. Products that take all multiprocessors divide
/// their tiles among them in advance, so a held multiprocessor can double their time. Twice as many, because the
/// products' blocks come in pairs within a part of the card (a GPC): a block by itself makes a second multiprocessor
/// unusable.
void products_beside_blocks(CudaTimer& b, const kernels::KernelTable& k, const device::cuda::Card& card);

}  // namespace hexad::bench
