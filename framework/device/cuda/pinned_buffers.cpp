#include "framework/device/cuda/pinned_buffers.h"

#include <algorithm>
#include <bit>

#include "framework/device/cuda/check.h"

namespace hexad::device::cuda {

// Without checks: the process may be ending, and CUDA may be gone already.
PinnedBuffers::~PinnedBuffers() {
  static_cast<void>(cudaStreamSynchronize(queue_->handle()));
  for (const auto& [size, buffers] : free_)
    for (const Free& buffer : buffers) static_cast<void>(cudaFreeHost(buffer.block));
}

std::shared_ptr<std::byte> PinnedBuffers::take(int64_t bytes) {
  constexpr uint64_t least = 4096;
  const auto size = static_cast<int64_t>(std::bit_ceil(std::max(static_cast<uint64_t>(bytes), least)));
  std::byte* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto& buffers = free_[size];
    const auto it = std::find_if(buffers.begin(), buffers.end(), [](const Free& b) { return b.since->passed(); });
    if (it != buffers.end()) {
      block = it->block;
      buffers.erase(it);
    }
  }
  if (!block) {
    check(cudaSetDevice(queue_->ordinal()), "choosing the card");
    void* fresh = nullptr;
    check(cudaHostAlloc(&fresh, static_cast<size_t>(size), cudaHostAllocDefault), "allocating page-locked memory");
    block = static_cast<std::byte*>(fresh);
  }
  return {block, [self = shared_from_this(), size](std::byte* b) { self->give_back(b, size); }};
}

void PinnedBuffers::give_back(std::byte* block, int64_t size) noexcept {
  try {
    auto since = queue_->record();
    std::lock_guard lock(mutex_);
    free_[size].push_back({block, std::move(since)});
  } catch (...) {
    // The card has failed, which whoever uses it next will say; a block less matters no more.
  }
}

}  // namespace hexad::device::cuda
