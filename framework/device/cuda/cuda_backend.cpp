// An NVIDIA card as a device.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "framework/base/error.h"
#include "framework/device/backend.h"
#include "framework/device/cuda/card_allocator.h"
#include "framework/device/cuda/choose_card.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/pinned_allocator.h"
#include "framework/device/cuda/reused_buffers.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device {
namespace {

using cuda::check;

// Returns the bytes of addresses to reserve for a segment: more than four times the card's memory, because each block
// needs contiguous free addresses.
int64_t addresses_of(const cudaDeviceProp& card) {
  constexpr int64_t step = int64_t{1} << 30;
  return 4 * (static_cast<int64_t>(card.totalGlobalMem) / step + 1) * step;
}

// CUDA priority of the queue for updates of weights: the lowest priority that CUDA has.
constexpr int update_priority = 0;

// Returns the CUDA priority of a lane. Communication has priority over copies and computation, because other ranks wait
// for it. All lanes have priority over the queue for updates, if there is one.
int priority_of(Lane lane, bool update_queue) {
  if (lane == Lane::inter || lane == Lane::intra) return -2;
  return update_queue ? update_priority - 1 : 0;
}

constexpr int64_t max_staged = int64_t{64} << 20;

// Returns the bytes of staging buffers to allocate at the start: 40 MiB, but at most an eighth of the limit.
int64_t stocked(int64_t pinned_limit) {
  constexpr int64_t all = int64_t{40} << 20;
  return pinned_limit ? std::min(all, pinned_limit / 8) : all;
}

bool is_pageable(const void* memory) {
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, memory), "querying a pointer's kind");
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const ContextOptions& options) : options_(options), card_(cuda::choose_card(options.place)) {
    card_->reserve(options.reserved_multiprocessors);
    pinned_ = std::make_shared<cuda::PinnedMemory>(card_->ordinal(), options.pinned_limit);
    buffers_ = std::make_shared<cuda::ReusedBuffers>(blocks_, pinned_);
    buffers_->stock(stocked(options.pinned_limit));
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override {
    return base::cat(card_->properties().name, ", ", card_->multiprocessors(), " SMs");
  }
  std::shared_ptr<Allocator> make_allocator() override {
    return std::make_shared<cuda::CardAllocator>(
        blocks_, cuda::CardAllocator::Options{.ordinal = card_->ordinal(),
                                              .addresses = addresses_of(card_->properties()),
                                              .limit = options_.memory_limit,
                                              .poison = options_.poison});
  }
  std::shared_ptr<Allocator> make_offload_allocator() override {
    return std::make_shared<cuda::PinnedAllocator>(blocks_, pinned_);
  }
  // Ignores the request for a thread (the second argument), because every lane is a separate queue.
  std::unique_ptr<Stream> make_lane(Lane lane, bool) override {
    return std::make_unique<cuda::CudaStream>(card_, blocks_, priority_of(lane, options_.update_queue));
  }
  std::unique_ptr<Stream> make_update_queue() override {
    if (!options_.update_queue) return nullptr;
    return std::make_unique<cuda::CudaStream>(card_, blocks_, update_priority);
  }

  // CUDA copies ordinary (pageable) host memory only after the earlier work of the queue. It blocks the host until the
  // copy is done. A copy of at most max_staged bytes from pageable memory avoids this wait with a staging buffer. The
  // card reads a host_buffer() when the stream reaches the copy. The caller may write to the buffer again only after
  // that copy, or may release the buffer and take another.
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0 || to == from) return;
    cuda::ensure_card(card_->ordinal());
    cuda::CudaStream& queue = cuda::cuda_stream(stream);
    std::shared_ptr<std::byte> staged;  // released on return; buffers_ reuses it once the copy is done
    if (bytes <= max_staged && is_pageable(from)) {
      staged = buffers_->take(bytes);
      std::memcpy(staged.get(), from, bytes);
      from = staged.get();
    }
    queue.touch(to);
    queue.touch(from);
    const auto handle = queue.handle();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle.get()), "copying");
  }
  void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) override {
    if (bytes <= 0) return;
    cuda::CudaStream& queue = cuda::cuda_stream(stream);
    queue.touch(to);
    const auto handle = queue.handle();
    check(cudaMemsetAsync(to, byte, bytes, handle.get()), "filling memory");
  }
  std::shared_ptr<std::byte> host_buffer(int64_t bytes) override { return buffers_->take(bytes); }
  void keep_host_memory() override { pinned_->keep(); }
  int64_t memory_number() const override {
    int64_t number = 0;
    std::memcpy(&number, card_->properties().uuid.bytes, sizeof number);
    return number;
  }

 private:
  const ContextOptions options_;
  const std::shared_ptr<cuda::Card> card_;
  const std::shared_ptr<cuda::Blocks> blocks_ = std::make_shared<cuda::Blocks>();
  std::shared_ptr<cuda::PinnedMemory> pinned_;
  std::shared_ptr<cuda::ReusedBuffers> buffers_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const ContextOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace hexad::device
