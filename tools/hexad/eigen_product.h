// A matrix product with Eigen, for `hexad bench gemm`.
#pragma once

#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::app {

/// Computes out[T, N] = x[T, D] w[N, D]^T on the host. Tensors are contiguous and all f32 or all f64. Each thread of
/// the kernels computes some of the rows.
void eigen_product(const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& w);

/// Returns "Eigen 3.4.0 with AVX SSE...": the instruction sets for which Eigen was compiled. This processor may have
/// others.
std::string eigen_description();

}  // namespace hexad::app
