#include "framework/device/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device::cuda {

std::byte* PinnedMemory::allocate(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (exceeds_limit(bytes)) return nullptr;
    held_ += bytes;
  }
  const OnCard on(ordinal_);
  void* block = nullptr;
  const cudaError_t result = cudaHostAlloc(&block, bytes, cudaHostAllocDefault);
  if (result == cudaSuccess) return static_cast<std::byte*>(block);
  {
    std::lock_guard lock(mutex_);
    held_ -= bytes;
  }
  // Clears the error. The caller handles an allocation failure, and check() reports any other error.
  static_cast<void>(cudaGetLastError());
  if (result != cudaErrorMemoryAllocation) check(result, "page-locking host memory");
  return nullptr;
}

// Ignores errors, because the process may be ending and CUDA may be shut down already.
void PinnedMemory::free(std::byte* block, int64_t bytes) noexcept {
  const OnCard on(ordinal_);
  static_cast<void>(cudaFreeHost(block));
  std::lock_guard lock(mutex_);
  held_ -= bytes;
}

int64_t PinnedMemory::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

std::string PinnedMemory::unavailable_reason(int64_t bytes) const {
  std::lock_guard lock(mutex_);
  if (!exceeds_limit(bytes))
    return base::cat("the system page-locks no more than the ", held_, " bytes that are taken");
  return base::cat("memory.pinned_bytes allows ", limit_, " bytes, of which ", held_, " are taken",
                   is_kept() ? " and must not be freed before the run ends" : "", "; increase memory.pinned_bytes");
}

}  // namespace hexad::device::cuda
