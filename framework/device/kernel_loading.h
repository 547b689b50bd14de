// Time at which a card's kernels are loaded.
#pragma once

namespace hexad::device {

/// Makes a card's kernels load when this process opens its first card instead of at the first launch of each kernel.
/// Loading may wait for all work of the card, and thus for other ranks, which may be waiting for this rank. Call it
/// before anything uses a card, in processes whose ranks exchange tensors. A value of CUDA_MODULE_LOADING in the
/// environment is kept. Does nothing in a program that is built without CUDA.
void load_kernels_at_start();

}  // namespace hexad::device
