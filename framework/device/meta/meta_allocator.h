// Allocator that counts bytes without allocating memory.
#pragma once

#include <memory>

#include "framework/device/allocator.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// Counts bytes by category like a real allocator. MemoryStats::held is the memory that the blocks in use would need
/// under memory.limit_bytes: each block is rounded up as in the caching allocator (block_size()). Freed blocks do not
/// count, because the caching allocator frees its cache before it refuses a request.
class MetaAllocator final : public Allocator {
 public:
  explicit MetaAllocator(std::shared_ptr<MetaMemory> memory) : memory_(std::move(memory)) {}
  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  void take(int64_t bytes);  // a negative number frees bytes
  const std::shared_ptr<MetaMemory> memory_;
  int64_t blocks_ = 0;
};

}  // namespace hexad::device
