// Products on all threads: lists of tiles.
#pragma once

#include <span>

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu {

/// Computes independent products. They are cut into tiles which the threads take in turn; an element's bits do not
/// depend on the cut (see gemm_tile.h), so neither on the number of threads nor on how many rows are computed together.
/// k may be zero: the sum is then zero. Each thread keeps `gemm_scratch` bytes.
void gemm(std::span<const GemmTile> products);

}  // namespace hexad::kernels::cpu
