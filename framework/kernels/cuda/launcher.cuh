// Features that only the kernel language has: starting a kernel, and shared memory of a block.
#pragma once

#include <cuda_runtime.h>

#include <string_view>
#include <type_traits>

namespace hexad::kernels::cuda {

/// Launches a kernel on a stream. `shared`: bytes of dynamic shared memory per block. `op`: name in errors of the
/// double of CUDA's runtime. cudaGetLastError() then returns the error, if any.
template <class... Parameters>
void start_kernel([[maybe_unused]] std::string_view op, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                  size_t shared, cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  kernel<<<blocks, threads, shared, stream>>>(arguments...);
}

/// Lets a kernel have more dynamic shared memory than the default.
template <class... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Returns the block's dynamic shared memory, as a T or the first of several.
template <class T>
__device__ __forceinline__ T& dynamic_shared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  return *reinterpret_cast<T*>(dynamic_shared_memory);
}

}  // namespace hexad::kernels::cuda
