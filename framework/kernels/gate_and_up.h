// Gate and up, the operands of SwigluKernels. A gated MLP computes both with one product.
#pragma once

#include "framework/tensor/tensor.h"

namespace hexad::kernels {

/// Rows of gate [T, F] and of up [T, F]. The rows may be strided.
struct GateAndUp {
  tensor::Tensor gate, up;
};

/// Returns the two halves of rows [T, 2 F]: gate and up, or their gradients. The halves share the storage of
/// `side_by_side`.
inline GateAndUp gate_and_up(const tensor::Tensor& side_by_side) {
  const int64_t width = side_by_side.dim(1) / 2;
  return {side_by_side.slice(1, 0, width), side_by_side.slice(1, width, 2 * width)};
}

}  // namespace hexad::kernels
