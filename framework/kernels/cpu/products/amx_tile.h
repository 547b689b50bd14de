// One tile of a bf16 product on one thread, by the processor's matrix unit (AMX): compiled where the compiler knows it.
//
// Every element of c is one chain of sums over pairs of terms, in order. It depends neither on the other rows or
// columns, nor on how the product is cut into tiles. Subnormal operands and results count as zero.
#pragma once

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu::amx {

/// Terms for which operands are packed at once.
inline constexpr int64_t block_depth = 1024;
/// Packed elements of a and of b, which stay in the second-level cache (together with the b that comes next, where a is
/// not packed), and sums of a bf16 result with more than block_depth terms.
inline constexpr int64_t left_elements = 128 * 1024, right_elements = 512 * 1024, partial_elements = 384 * 512;
/// Bytes of scratch memory of one call, aligned to 64.
inline constexpr int64_t tile_scratch = (left_elements + right_elements) * 2 + (partial_elements + 2 * 32 * 32) * 4;

/// Computes a tile of bf16 operands with k > 0. This thread's tile registers are free afterwards.
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);

}  // namespace hexad::kernels::cpu::amx
