// Tensors as matrices whose rows have a single stride.
#pragma once

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

/// Returns the rows of a matrix. The rows have a single stride, so kernels need no divisions. Throws std::logic_error,
/// with `op` in the message, if the rows are not evenly spaced.
template <class T>
Rows<device_t<T>> matrix_of(std::string_view op, const Tensor& t) {
  const auto rows = rows_of<T>(op, t);
  require(rows.levels <= 1, "[", op, "] rows of a tensor of shape ", t.shape(), " and strides ", t.strides(),
          " are not evenly spaced; expected one stride for all rows");
  return rows;
}

}  // namespace hexad::kernels::cuda
