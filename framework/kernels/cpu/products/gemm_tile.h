// One tile of a product on one thread, compiled for each instruction set (cmake/HexadSimd.cmake).
//
// Every element of c is a sum over the same blocks of k, in the same order. Each block is one chain of fused
// multiply-adds. Therefore an element does not depend on other rows or columns, on the division of the product into
// tiles, or on the instruction set.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// A matrix whose element (i, j) is at data + i * row + j * column (strides in elements). One of the strides is 1.
struct Operand {
  const void* data;
  base::Dtype dtype;
  int64_t row, column;
};

/// A matrix whose contiguous rows are `stride` elements apart. Its dtype is bf16 or f32, or f64 if the operands are
/// f64.
struct Result {
  void* data;
  base::Dtype dtype;
  int64_t stride;
};

/// Product c[m, n] = a[m, k] b[k, n], or c += a b (only if c is not bf16). Each operand is f32 or bf16, or both
/// operands are f64.
struct GemmTile {
  int64_t m, n, k;
  Operand a, b;
  Result c;
  bool add;
};

/// Numbers of terms that are added in one chain. A sum of up to gemm_depth terms is a single chain. Each chain of a
/// longer sum has about gemm_chain terms.
inline constexpr int64_t gemm_chain = 256, gemm_depth = 512;
/// Number of rows of `a`, and number of columns of `b`, that are packed at a time.
inline constexpr int64_t gemm_rows = 84, gemm_columns = 512;
/// Maximum number of elements of a tile that has a bf16 result and more than one block of k. Such a result is summed in
/// scratch memory.
inline constexpr int64_t gemm_sums = 512 * 512;
/// Bytes of scratch memory of one call. The memory must be aligned to 64 bytes.
inline constexpr int64_t gemm_scratch = (gemm_rows + gemm_columns) * gemm_depth * 8 + gemm_sums * 4 + 32768;

/// Computes a tile. `next` is the tile that this thread may compute next (null: none). The first block of its operand b
/// is prefetched.
namespace v3 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}
namespace v4 {
void gemm_tile(const GemmTile& tile, const GemmTile* next, void* scratch);
}

}  // namespace hexad::kernels::cpu
