// Allocator that counts bytes without allocating memory.
#pragma once

#include <memory>

#include "framework/device/allocator.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// Counts bytes by category like a real allocator. MemoryStats::held is the memory that the blocks in use would need
/// under memory.limit_bytes: each block is rounded up as in CachingAllocator (block_size()). Freed blocks do not count,
/// because CachingAllocator frees its cache before it refuses a request.
class MetaAllocator final : public Allocator {
 public:
  explicit MetaAllocator(std::shared_ptr<MetaMemory> memory)
      : Allocator(Held::measured, Live::not_listed), memory_(std::move(memory)) {}
  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  // Counts a block of `bytes` bytes; a negative number counts a freed block.
  void take(int64_t bytes, Category category);
  const std::shared_ptr<MetaMemory> memory_;
  int64_t rounded_ = 0;  // bytes of the blocks in use, each rounded up
};

}  // namespace hexad::device
