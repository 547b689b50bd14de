// Prefetching of operands of products. Only files that hexad_isa_objects compiles include this file, so everything has
// internal linkage.
#pragma once

#include "framework/kernels/cpu/products/gemm_tile.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

/// Prefetches the next block of operand `b` into the second-level cache, a few cache lines per call of step(). Without
/// prefetching, copying the block from memory would take a tenth of the time of a product with 256 rows. The matrix
/// unit also benefits from prefetching operand `a`.
class Ahead {
 public:
  Ahead() = default;
  /// Prepares a prefetch of rows [k, k + depth) and columns [j, j + columns) of `b`, spread over `steps` calls of
  /// step().
  Ahead(const Operand& b, int64_t k, int64_t depth, int64_t j, int64_t columns, int64_t steps) {
    const int64_t size = b.dtype == base::Dtype::bf16 ? 2 : b.dtype == base::Dtype::f32 ? 4 : 8;
    const bool across = b.column == 1;
    line_ = static_cast<const char*>(b.data) + (k * b.row + j * b.column) * size;
    stride_ = (across ? b.row : b.column) * size;
    rows_ = across ? depth : columns;
    lines_ = ((across ? columns : depth) * size + 63) / 64;
    per_step_ = (rows_ * lines_ + steps - 1) / steps;
  }
  void step() {
    for (int64_t n = 0; n < per_step_ && rows_ > 0; ++n) {
      __builtin_prefetch(line_ + at_ * 64, 0, 2);
      if (++at_ == lines_) at_ = 0, --rows_, line_ += stride_;
    }
  }

 private:
  const char* line_ = nullptr;
  int64_t stride_ = 0, rows_ = 0, lines_ = 0, at_ = 0, per_step_ = 0;
};

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
