// One tile of a product on one thread, compiled for each instruction set (cmake/HexadSimd.cmake).
//
// Every element of c is the sum of the same blocks of k in the same order, each block one chain of fused multiply-adds.
// It depends neither on the other rows or columns, nor on how the product is cut into tiles, nor on the instruction
// set.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// A matrix whose element (i, j) lies at data + i * row + j * column (in elements); one of the strides is 1.
struct Operand {
  const void* data;
  base::Dtype dtype;
  int64_t row, column;
};

/// A matrix with contiguous rows, `stride` elements apart. f32 (or f64 when the operands are f64), or bf16.
struct Result {
  void* data;
  base::Dtype dtype;
  int64_t stride;
};

/// c[m, n] = a[m, k] b[k, n], or c += a b (not for a bf16 c). The operands are f32 or bf16 (in any mix), or both f64.
struct GemmTile {
  int64_t m, n, k;
  Operand a, b;
  Result c;
  bool add;
};

/// Terms of a sum that are added in one chain: all up to gemm_depth, beyond that about gemm_chain.
inline constexpr int64_t gemm_chain = 256, gemm_depth = 512;
/// Rows of a and columns of b that are packed at once.
inline constexpr int64_t gemm_rows = 84, gemm_columns = 512;
/// A bf16 result of more than one block of k is summed in scratch memory; such a tile has at most this many elements.
inline constexpr int64_t gemm_sums = 512 * 512;
/// Bytes of scratch memory of one call, aligned to 64.
inline constexpr int64_t gemm_scratch = (gemm_rows + gemm_columns) * gemm_depth * 8 + gemm_sums * 4 + 32768;

/// Computes a tile. `next`, if not null, is the tile that this thread probably computes afterwards.
namespace v3 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}
namespace v4 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}

}  // namespace hexad::kernels::cpu
