// Features that exist only in the CUDA language: kernel launches and shared memory.
#pragma once

#include <cuda_runtime.h>

#include <string_view>
#include <type_traits>

namespace hexad::kernels::cuda {

/// Launches a kernel on a stream. `shared` is the number of bytes of dynamic shared memory per block. `op` names the
/// kernel in errors of the CPU replacement for CUDA's runtime. If the launch fails, cudaGetLastError() then returns the
/// error.
template <class... Parameters>
void start_kernel([[maybe_unused]] std::string_view op, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                  size_t shared, cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  kernel<<<blocks, threads, shared, stream>>>(arguments...);
}

/// Permits `kernel` to use `bytes` of dynamic shared memory per block. `bytes` may exceed the default maximum.
template <class... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Returns the dynamic shared memory of the block as a T, or as the first of several T.
template <class T>
__device__ __forceinline__ T& dynamic_shared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  return *reinterpret_cast<T*>(dynamic_shared_memory);
}

}  // namespace hexad::kernels::cuda
