#include "framework/device/cuda/cuda_check.h"

#include "framework/base/error.h"

namespace hexad::device::cuda {

void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would report otherwise
  base::fail(base::ExitCode::resource, "[cuda] ", what, ": ", cudaGetErrorName(result), " (",
             cudaGetErrorString(result), ")");
}

}  // namespace hexad::device::cuda
