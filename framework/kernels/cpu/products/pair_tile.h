// One tile of a bf16 product on one thread. The product uses instructions that multiply and add pairs of terms, in the
// matrix unit (AMX) or the vector unit (AVX-512 BF16). The code is always compiled, but runs only on machines that have
// these instructions (simd/isa.h).
//
// An element of c is a sum in a fixed order. AVX-512 BF16 adds pairs sequentially. AMX adds groups of 32 terms; the
// unit determines the order within a group. An element does not depend on other rows or columns, or on the division of
// the product into tiles. The two units may differ in the last bits. Subnormal operands and results count as zero.
#pragma once

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu {

/// Sizes of the parts of a product that are kept in the second-level cache at a time, for one unit.
struct PairBlocks {
  int64_t depth;        // number of terms packed at a time
  int64_t left, right;  // maximum packed elements of a and b; `right` includes b's next block if a is not packed
  int64_t partial;      // number of sums of a bf16 result with more than `depth` terms

  /// Returns the bytes of scratch memory of one call. The memory must be aligned to 64 bytes.
  constexpr int64_t scratch() const { return (left + right) * 2 + (partial + 32 * 32) * 4; }
};

/// The functions below compute a tile of bf16 operands with k > 0.
namespace amx {
inline constexpr PairBlocks blocks{.depth = 1024, .left = 128 * 1024, .right = 512 * 1024, .partial = 384 * 512};
/// Computes a tile, then releases this thread's tile registers.
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}  // namespace amx
namespace dot {
inline constexpr PairBlocks blocks{.depth = 1024, .left = 64 * 1024, .right = 256 * 1024, .partial = 384 * 512};
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}  // namespace dot

}  // namespace hexad::kernels::cpu
