// One tile of a bf16 product on one thread, by instructions that multiply and add pairs of terms: the matrix unit's
// (AMX) and the vector unit's (AVX-512 BF16), compiled where the compiler knows them.
//
// An element of c is a sum in a fixed order: pair after pair (AVX-512 BF16), or 32 terms after 32 terms, as the matrix
// unit adds them. It depends neither on the other rows or columns, nor on how the product is cut into tiles. The two
// units may differ in the last bits. Subnormal operands and results count as zero.
#pragma once

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu {

/// Parts of a product that are in the second-level cache at a time, by unit.
struct PairBlocks {
  int64_t depth;        // terms for which operands are packed at once
  int64_t left, right;  // packed elements of a and of b (with the b that comes next, where a is not packed)
  int64_t partial;      // sums of a bf16 result with more than `depth` terms

  /// Bytes of scratch memory of one call, aligned to 64.
  constexpr int64_t scratch() const { return (left + right) * 2 + (partial + 32 * 32) * 4; }
};

/// Each computes a tile of bf16 operands with k > 0.
namespace amx {
inline constexpr PairBlocks blocks{.depth = 1024, .left = 128 * 1024, .right = 512 * 1024, .partial = 384 * 512};
/// This thread's tile registers are free afterwards.
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}  // namespace amx
namespace dot {
inline constexpr PairBlocks blocks{.depth = 1024, .left = 64 * 1024, .right = 256 * 1024, .partial = 384 * 512};
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}  // namespace dot

}  // namespace hexad::kernels::cpu
