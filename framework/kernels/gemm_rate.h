// Measures the rate of large matrix products of Hexad's own kernels on this machine.
#pragma once

#include <functional>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using base::Dtype;

struct GemmRate {
  double flops_per_second = 0;  // rate of the fastest shape
  int64_t rows = 0, inputs = 0, outputs = 0;
};

/// Measures forward products out[rows, outputs] = x[rows, inputs] w^T of a few large shapes. Each shape is repeated for
/// about its share of `seconds`, and its median counts.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds);

/// Computes out = x w^T; the result is complete when the call returns.
using Multiply = std::function<void(const Tensor& out, const Tensor& x, const Tensor& w)>;
/// Measures the same products by another implementation. Throws std::logic_error if its results are wrong.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply);

/// Measures a rate for MFU in a fraction of a second, even on a busy machine. It starts with square products of size
/// `least`. The size doubles while a product is expected to take less than a tenth of a second. Each size is repeated
/// for some time slices of the system, so that the rate includes the effect of processes that share the cores.
GemmRate sample_gemm_rate(Device device, Dtype dtype, int64_t least);

}  // namespace hexad::kernels
