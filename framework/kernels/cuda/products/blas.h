// Products of two dense matrices by cuBLASLt.
#pragma once

#include <string_view>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using base::Dtype;

/// A tensor as a matrix: leading dimensions flattened, rows of contiguous elements `stride` elements apart.
struct Matrix {
  Tensor tensor;  // keeps the memory
  int64_t rows, columns, stride;
};
/// Throws std::logic_error naming `op` and `name` when the tensor is none.
Matrix matrix(std::string_view op, std::string_view name, const Tensor& t);

/// A factor of a product: a matrix as it lies in memory, or its transpose.
struct Factor {
  Matrix matrix;
  bool transposed = false;

  int64_t rows() const { return transposed ? matrix.columns : matrix.rows; }
  int64_t columns() const { return transposed ? matrix.rows : matrix.columns; }
  Dtype dtype() const { return matrix.tensor.dtype(); }
};

/// out = or += left right, summed in acc: factors of one dtype, `out` of the same or acc, no size zero. False, and
/// nothing done, where cuBLASLt has no kernel for these addresses and strides (bf16 at odd ones).
bool multiply(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
