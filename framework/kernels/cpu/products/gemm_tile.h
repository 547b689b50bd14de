// One tile of a product on one thread, compiled for each instruction set (cmake/HexadSimd.cmake).
//
// Every element of c is the sum of the same blocks of k in the same order. Each block is one chain of fused
// multiply-adds. An element does not depend on other rows or columns, on the cut of the product into tiles, or on the
// instruction set.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// A matrix whose element (i, j) is at data + i * row + j * column (in elements); one of the strides is 1.
struct Operand {
  const void* data;
  base::Dtype dtype;
  int64_t row, column;
};

/// A matrix with contiguous rows, `stride` elements apart: f32 (or f64 if the operands are f64), or bf16.
struct Result {
  void* data;
  base::Dtype dtype;
  int64_t stride;
};

/// Product c[m, n] = a[m, k] b[k, n], or c += a b (not for a bf16 c). The operands are f32 or bf16 (in any mix), or
/// both f64.
struct GemmTile {
  int64_t m, n, k;
  Operand a, b;
  Result c;
  bool add;
};

/// Number of terms of a sum added in one chain: all terms of a sum of up to gemm_depth, about gemm_chain for a longer
/// sum.
inline constexpr int64_t gemm_chain = 256, gemm_depth = 512;
/// Number of rows of a and of columns of b that are packed at a time.
inline constexpr int64_t gemm_rows = 84, gemm_columns = 512;
/// Maximum number of elements of a tile with a bf16 result of more than one block of k, which is summed in scratch
/// memory.
inline constexpr int64_t gemm_sums = 512 * 512;
/// Bytes of scratch memory of one call, aligned to 64.
inline constexpr int64_t gemm_scratch = (gemm_rows + gemm_columns) * gemm_depth * 8 + gemm_sums * 4 + 32768;

/// Computes a tile. `next`, if not null, is the tile that this thread will probably compute next.
namespace v3 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}
namespace v4 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}

}  // namespace hexad::kernels::cpu
