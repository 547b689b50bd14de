#include "framework/device/cuda/cuda_allocator.h"

#include <algorithm>
#include <bit>

#include "framework/base/error.h"
#include "framework/device/cuda/check.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t alignment = 512;
constexpr int64_t large = int64_t{1} << 20;
constexpr int64_t page = int64_t{2} << 20;  // the card's

int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

// Small blocks come in eighths of a power of two, as the CPU's do, and fit exactly; large ones in pages of the card.
int64_t rounded(int64_t bytes) {
  if (bytes >= large) return round_up(bytes, page);
  if (bytes <= alignment) return alignment;
  const int64_t eighth = int64_t{1} << (std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1) >> 3;
  return round_up(bytes, std::max(eighth, alignment));
}

// The largest cached block that may serve for `size` bytes: an eighth is wasted at most.
int64_t largest_fit(int64_t size) { return size < large ? size : size + size / 8; }

}  // namespace

// Without checks: the process may be ending, and CUDA may be gone already.
CudaAllocator::~CudaAllocator() {
  static_cast<void>(cudaStreamSynchronize(queue_->handle()));
  for (const auto& [size, blocks] : cached_)
    for (void* block : blocks)
      static_cast<void>(options_.source == Source::card ? cudaFree(block) : cudaFreeHost(block));
}

void* CudaAllocator::from_cache(int64_t size) {
  const auto it = cached_.lower_bound(size);
  if (it == cached_.end() || it->first > largest_fit(size)) return nullptr;
  void* block = it->second.back();
  it->second.pop_back();
  size_of_[block] = it->first;
  if (it->second.empty()) cached_.erase(it);
  return block;
}

// Null when there is no room.
void* CudaAllocator::from_driver(int64_t size) {
  if (options_.limit && held_ + size > options_.limit) return nullptr;
  check(cudaSetDevice(queue_->ordinal()), "choosing the card");  // this thread may be one that never did
  void* block = nullptr;
  const auto bytes = static_cast<size_t>(size);
  const cudaError_t result =
      options_.source == Source::card ? cudaMalloc(&block, bytes) : cudaHostAlloc(&block, bytes, cudaHostAllocDefault);
  if (result == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // answered by the caller
    return nullptr;
  }
  check(result, "allocating memory");
  held_ += size;
  size_of_[block] = size;
  return block;
}

void* CudaAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = rounded(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    block = from_cache(size);
    if (!block) block = from_driver(size);
    if (!block && !cached_.empty()) {
      trim_locked();
      block = from_driver(size);
    }
  }
  if (!block)
    base::fail(base::ExitCode::resource, "out of ", options_.source == Source::card ? "memory of the card" : "memory",
               ": ", name_of(category), " block of ", bytes, " bytes",
               options_.limit ? base::cat(" exceeds the limit of ", options_.limit, " bytes") : "", "; in use:\n",
               stats().table(), "largest blocks:\n", largest_blocks());
  count(bytes, category);
  // All ones is a NaN in every float type.
  if (options_.poison)
    check(cudaMemsetAsync(block, 0xff, static_cast<size_t>(bytes), queue_->handle()), "poisoning memory");
  return block;
}

void CudaAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  std::lock_guard lock(mutex_);
  const auto it = size_of_.find(block);
  base::require(it != size_of_.end(), "[cuda] freed a block that is not of this allocator");
  cached_[it->second].push_back(block);
  size_of_.erase(it);
}

void CudaAllocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void CudaAllocator::trim_locked() {
  queue_->synchronize();
  for (const auto& [size, blocks] : cached_)
    for (void* block : blocks) {
      check(options_.source == Source::card ? cudaFree(block) : cudaFreeHost(block), "freeing memory");
      held_ -= size;
    }
  cached_.clear();
}

}  // namespace hexad::device::cuda
