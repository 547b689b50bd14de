// Matrix products with oneDNN, for `hexad bench gemm`. Implemented in onednn_product.cpp or, if the library was not
// found at build time, in onednn_product_missing.cpp.
#pragma once

#include <string>

#include "framework/kernels/gemm_rate.h"

namespace hexad::app {

/// Returns the version and the instruction set that is used: "oneDNN 2.6.3 with AVX-512 BF16, weights packed
/// beforehand". If the library is missing, returns the reason.
std::string onednn_description();

/// True if oneDNN multiplies matrices of this dtype on this processor. bf16 requires AVX-512. f64 is never supported.
bool onednn_multiplies(base::Dtype dtype);

/// Returns a function that computes out[T, N] = x[T, D] w[N, D]^T on the host; empty if the library is missing. The
/// tensors must be contiguous, and all f32 or all bf16. oneDNN uses the kernels' number of threads. The first call
/// copies the weights to oneDNN's preferred layout. Later calls with the same weights and number of rows use this copy
/// and do not read the weights again.
kernels::Multiply onednn_product();

}  // namespace hexad::app
