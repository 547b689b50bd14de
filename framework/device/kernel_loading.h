// Choice of the time at which a card's kernels are loaded.
#pragma once

namespace hexad::device {

/// Makes CUDA load all kernels when this process opens its first card, not each kernel at its first launch. Loading at
/// launch can deadlock: the load may wait for all work of the card, this work may wait for other ranks, and the other
/// ranks may wait for this rank. Call this function before any use of a card, in processes whose ranks exchange
/// tensors. Has no effect if CUDA_MODULE_LOADING is set in the environment, or in a program built without CUDA.
void load_kernels_at_start();

}  // namespace hexad::device
