// Matrix products with oneDNN, for `hexad bench gemm`. onednn_product.cpp implements them. If the library was not
// found, onednn_product_missing.cpp replaces it.
#pragma once

#include <string>

#include "framework/kernels/gemm_rate.h"

namespace hexad::app {

/// Returns "oneDNN 2.6.3 with AVX-512 BF16, weights packed beforehand": the version, and the instruction set used here.
/// If the library is not available, returns the reason.
std::string onednn_description();

/// True if oneDNN multiplies matrices of this dtype on this processor. bf16 requires AVX-512. f64 is never possible.
bool onednn_multiplies(base::Dtype dtype);

/// Returns a function that computes out[T, N] = x[T, D] w[N, D]^T on the host. Tensors are contiguous, and all f32 or
/// all bf16. oneDNN starts as many threads as the kernels have. Weights are copied to oneDNN's preferred layout on
/// first use, and not read again. The function is empty if the library was not found.
kernels::Multiply onednn_product();

}  // namespace hexad::app
