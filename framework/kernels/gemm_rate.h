// Measurement of the rate of large matrix products on this machine, with Hexad's kernels or another implementation.
#pragma once

#include <functional>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using base::Dtype;

struct GemmRate {
  double flops_per_second = 0;  // rate of the fastest shape
  int64_t rows = 0, inputs = 0, outputs = 0;
};

/// Measures forward products out[rows, outputs] = x[rows, inputs] w^T of a few large shapes. Returns the rate of the
/// fastest shape. Each shape is repeated for an equal share of `seconds`, but at least three times. The rate of a shape
/// is the median rate of its repetitions.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds);

/// Function that computes out = x w^T. The result must be complete when the call returns.
using Multiply = std::function<void(const Tensor& out, const Tensor& x, const Tensor& w)>;
/// Measures another implementation like measure_gemm_rate(device, dtype, seconds). Throws std::logic_error if an
/// element of a result is wrong.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply);

/// Measures the rate of square products for MFU (model FLOPs utilization). Returns the rate of the fastest size. The
/// first size is `least`, but at least 256 on a CPU and 1024 on a card. The size doubles while the next product is
/// expected to take at most 0.1 s, up to 2048 (card: 8192). Each size is repeated for 40 ms. This time covers several
/// time slices of the operating system, so the rate reflects other processes that use the cores.
GemmRate sample_gemm_rate(Device device, Dtype dtype, int64_t least);

}  // namespace hexad::kernels
