// Products of two dense matrices by cuBLASLt.
#pragma once

#include <string_view>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using base::Dtype;

/// A tensor as a matrix: leading dimensions are flattened, and rows of contiguous elements are `stride` elements apart.
struct Matrix {
  Tensor tensor;  // keeps the memory
  int64_t rows, columns, stride;
};
/// Returns the tensor as a matrix. Throws std::logic_error with `op` and `name` if the tensor is not a matrix.
Matrix matrix(std::string_view op, std::string_view name, const Tensor& t);

/// A factor of a product: a matrix as stored, or its transpose.
struct Factor {
  Matrix matrix;
  bool transposed = false;

  int64_t rows() const { return transposed ? matrix.columns : matrix.rows; }
  int64_t columns() const { return transposed ? matrix.rows : matrix.columns; }
  Dtype dtype() const { return matrix.tensor.dtype(); }
};

/// Computes out = or += left right, summed in acc. The factors have one dtype. `out` has this dtype or acc. No size is
/// zero. Returns false, without a launch, if cuBLASLt has no kernel for these addresses and strides (bf16 at odd ones).
bool multiply(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
