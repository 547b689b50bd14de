// How fast this machine multiplies large matrices through Hexad's own kernels: the yardstick for MFU.
#pragma once

#include <functional>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using base::Dtype;

struct GemmRate {
  double flops_per_second = 0;  // the best shape's median
  int64_t rows = 0, inputs = 0, outputs = 0;
};

/// Forward products out[rows, outputs] = x[rows, inputs] w^T of a few large shapes, each repeated for about its share
/// of `seconds`.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds);

/// out = x w^T, which is there when the call returns.
using Multiply = std::function<void(const Tensor& out, const Tensor& x, const Tensor& w)>;
/// The same products by another implementation. Throws std::logic_error when it gets them wrong.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply);

}  // namespace hexad::kernels
