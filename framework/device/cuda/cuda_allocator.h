// Memory of the card, and host memory that the card reaches by itself, handed out again without asking the driver.
#pragma once

#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Where a CudaAllocator takes blocks from: the card, or the host's memory, page-locked for the card's copies.
enum class Source : uint8_t { card, pinned_host };

/// Keeps freed blocks and reuses them; on multiples of 512 bytes, as the driver gives them.
///
/// A freed block may be handed out while work that uses it is still queued: its next user's work is queued behind. That
/// needs all work on the memory to go through one queue, which is why the lanes of a context share theirs. Nothing on
/// the host may touch it.
class CudaAllocator final : public Allocator {
 public:
  struct Options {
    Source source = Source::card;
    int64_t limit = 0;    // bytes; 0: none
    bool poison = false;  // fill new blocks with NaN, in the order of the queue
  };
  CudaAllocator(std::shared_ptr<Queue> queue, const Options& options) : queue_(std::move(queue)), options_(options) {}
  ~CudaAllocator() override;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  /// Pinned memory is the host's, but what lies in it may be on its way.
  bool on_host() const override { return false; }
  /// Waits for the queue and gives all cached blocks back to the driver.
  void trim();

 private:
  void* from_cache(int64_t size);
  void* from_driver(int64_t size);
  void trim_locked();

  const std::shared_ptr<Queue> queue_;
  const Options options_;
  int64_t held_ = 0;  // bytes taken from the driver: in use and cached
  std::map<int64_t, std::vector<void*>> cached_;
  std::unordered_map<void*, int64_t> size_of_;  // of the blocks in use
};

}  // namespace hexad::device::cuda
