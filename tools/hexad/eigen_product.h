// A matrix product by Eigen, for `hexad bench gemm`.
#pragma once

#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::app {

/// out[T, N] = x[T, D] w[N, D]^T on the host, contiguous, all f32 or all f64; each of the kernels' threads computes
/// some of the rows.
void eigen_product(const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& w);

/// "Eigen 3.4.0 with AVX SSE...": the instructions that it was compiled for, whatever this processor has.
std::string eigen_description();

}  // namespace hexad::app
