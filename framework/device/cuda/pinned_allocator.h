// Allocator of page-locked host memory for offloaded data.
#pragma once

#include <optional>

#include "framework/device/allocator.h"
#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/pinned_memory.h"

namespace hexad::device::cuda {

/// Keeps freed blocks and reuses them. Sizes are rounded up to size classes (block_size()) and to whole pages of 4 KiB.
/// A request reuses a freed block that is at most an eighth larger than the rounded size. Requests of slightly
/// different sizes (routed rows) can therefore reuse the same block. If no new block can be allocated, frees the unused
/// blocks and tries again. While memory must not be freed (RawMemory::is_kept), uses a larger unused block instead.
/// Only the card may access an allocated block, because copies of the block's former user may still be in flight.
class PinnedAllocator final : public Allocator {
 public:
  PinnedAllocator(std::shared_ptr<Blocks> blocks, std::shared_ptr<PinnedMemory> memory)
      : blocks_(std::move(blocks)), memory_(std::move(memory)) {}
  ~PinnedAllocator() override;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  struct Free {
    std::byte* begin;
    Marks last;
  };
  /// Removes the smallest free block of `size` to `most` bytes from the cache and returns it; nullopt if there is none.
  std::optional<Free> from_cache(int64_t size, int64_t most);
  void trim();

  const std::shared_ptr<Blocks> blocks_;
  const std::shared_ptr<PinnedMemory> memory_;
  std::map<int64_t, std::vector<Free>> cached_;  // free blocks by size
  std::unordered_map<void*, int64_t> size_of_;   // sizes of the blocks in use
};

}  // namespace hexad::device::cuda
