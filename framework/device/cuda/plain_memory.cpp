#include "framework/device/cuda/plain_memory.h"

#include <cuda_runtime_api.h>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device::cuda {

std::byte* PlainMemory::allocate(int64_t bytes) {
  const OnCard on(ordinal_);
  void* block = nullptr;
  const cudaError_t result = cudaMalloc(&block, bytes);
  if (result == cudaSuccess) return static_cast<std::byte*>(block);
  // Clears the error. The caller handles an allocation failure, and check() reports any other error.
  static_cast<void>(cudaGetLastError());
  if (result != cudaErrorMemoryAllocation) check(result, "allocating memory of the card");
  return nullptr;
}

// Ignores errors, because the process may be ending and CUDA may be shut down already.
void PlainMemory::free(std::byte* block, int64_t) noexcept {
  ensure_card(ordinal_);
  static_cast<void>(cudaFree(block));
}

std::string PlainMemory::unavailable_reason(int64_t) const {
  return "the card has no more memory; set memory.limit_bytes so that memory remains for the buffers of collectives";
}

}  // namespace hexad::device::cuda
