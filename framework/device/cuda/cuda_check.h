// Conversion of CUDA's error codes to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace hexad::device::cuda {

/// Throws Error(resource) if `result` is not cudaSuccess. The message contains `what` and CUDA's name and text of the
/// error.
void check(cudaError_t result, std::string_view what);

}  // namespace hexad::device::cuda
