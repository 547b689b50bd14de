// How fast this machine multiplies large matrices through Hexad's own kernels: the yardstick for MFU.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

struct GemmRate {
  double flops_per_second = 0;  // the best shape's median
  int64_t rows = 0, inputs = 0, outputs = 0;
};

/// Forward products out[rows, outputs] = x[rows, inputs] w^T of a few large shapes, each repeated for about its share
/// of `seconds`, the weights packed once as in training.
GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds);

}  // namespace hexad::kernels
