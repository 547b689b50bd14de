// Matrix products by oneDNN, for `hexad bench gemm`: onednn_product.cpp, or onednn_product_missing.cpp where the
// library was not found.
#pragma once

#include <string>

#include "framework/kernels/gemm_rate.h"

namespace hexad::app {

/// "oneDNN 2.6.3 with AVX-512 BF16, weights packed beforehand": version and the instructions that it uses here, or why
/// there is none.
std::string onednn_description();

/// True if oneDNN multiplies matrices of this type on this processor: bf16 only where there is AVX-512, f64 never.
bool onednn_multiplies(base::Dtype dtype);

/// out[T, N] = x[T, D] w[N, D]^T on the host, contiguous, all f32 or all bf16, by as many threads of its own as the
/// kernels have. Weights are copied into oneDNN's preferred layout when they come for the first time, and are not
/// looked at again. Empty if the library was not found.
kernels::Multiply onednn_product();

}  // namespace hexad::app
