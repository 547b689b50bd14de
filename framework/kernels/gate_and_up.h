// Operands of SwigluKernels, both computed by one product of a gated MLP.
#pragma once

#include "framework/tensor/tensor.h"

namespace hexad::kernels {

/// Strided rows [T, F] each.
struct GateAndUp {
  tensor::Tensor gate, up;
};

/// The halves of rows [T, 2 F] that hold both side by side, or of their gradients; they share its storage.
inline GateAndUp gate_and_up(const tensor::Tensor& side_by_side) {
  const int64_t width = side_by_side.dim(1) / 2;
  return {side_by_side.slice(1, 0, width), side_by_side.slice(1, width, 2 * width)};
}

}  // namespace hexad::kernels
