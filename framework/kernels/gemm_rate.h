// The rate of large matrix products of Hexad's own kernels on this machine.
#pragma once

#include <functional>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using base::Dtype;

struct GemmRate {
  double flops_per_second = 0;  // of the best shape
  int64_t rows = 0, inputs = 0, outputs = 0;
};

/// Forward products out[rows, outputs] = x[rows, inputs] w^T of a few large shapes, each repeated for about its share
/// of `seconds`; of each shape the median counts.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds);

/// out = x w^T, which is there when the call returns.
using Multiply = std::function<void(const Tensor& out, const Tensor& x, const Tensor& w)>;
/// The same products by another implementation. Throws std::logic_error when it gets them wrong.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply);

/// A sample that costs a fraction of a second however busy the machine is, for MFU. Square products of size `least`,
/// and then of twice the size as long as one of these is expected to take less than a tenth of a second; each size is
/// repeated for some time slices of the system, so that processes that share cores see their share.
GemmRate sample_gemm_rate(Device device, Dtype dtype, int64_t least);

}  // namespace hexad::kernels
