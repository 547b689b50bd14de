// Conversion of CUDA's error codes to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace hexad::device::cuda {

/// Throws Error(resource) with `what`, CUDA's name of the error and its text, unless `result` is cudaSuccess.
void check(cudaError_t result, std::string_view what);

}  // namespace hexad::device::cuda
