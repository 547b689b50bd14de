// A matrix product with Eigen, for `hexad bench gemm`.
#pragma once

#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::app {

/// Computes out[T, N] = x[T, D] w[N, D]^T on the host. The tensors must be contiguous, and all f32 or all f64. The rows
/// are divided among the kernels' threads.
void eigen_product(const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& w);

/// Returns Eigen's version and the instruction sets for which it was compiled: "Eigen 3.4.0, compiled for AVX, SSE...".
/// This processor may support other instruction sets.
std::string eigen_description();

}  // namespace hexad::app
