// Products of two dense matrices with cuBLASLt.
#pragma once

#include <string_view>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using base::Dtype;

/// A tensor as a matrix. Leading dimensions are flattened; rows of contiguous elements are `stride` elements apart.
struct Matrix {
  Tensor tensor;  // shares the ownership of the memory
  int64_t rows, columns, stride;
};
/// Returns the tensor as a matrix. Throws std::logic_error, with `op` and `name` in the message, if the tensor cannot
/// be viewed as a matrix.
Matrix matrix(std::string_view op, std::string_view name, const Tensor& t);

/// A factor of a product: a stored matrix, or its transpose.
struct Factor {
  Matrix matrix;
  bool transposed = false;

  int64_t rows() const { return transposed ? matrix.columns : matrix.rows; }
  int64_t columns() const { return transposed ? matrix.rows : matrix.columns; }
  Dtype dtype() const { return matrix.tensor.dtype(); }
};

/// Computes out = left right, or adds the product to `out`, with sums in the accumulator dtype. Both factors have the
/// same dtype; `out` has this dtype or the accumulator dtype. No size may be zero. Returns false, without a launch, if
/// cuBLASLt has no kernel for these addresses and strides (for example, bf16 rows at odd strides). Throws
/// Error(resource) if cuBLASLt reports another error.
bool multiply(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
