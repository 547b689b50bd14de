// Counts what an allocator would hand out.
#pragma once

#include <memory>

#include "framework/device/allocator.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// The account of a real allocator, by category. MemoryStats::held is what blocks in use take of memory.limit_bytes:
/// each rounded up as the caching allocator rounds it (block_size), which gives back all that is not in use before it
/// refuses a block.
class MetaAllocator final : public Allocator {
 public:
  explicit MetaAllocator(std::shared_ptr<MetaMemory> memory) : memory_(std::move(memory)) {}
  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  void take(int64_t bytes);  // negative: gives back
  const std::shared_ptr<MetaMemory> memory_;
  int64_t blocks_ = 0;
};

}  // namespace hexad::device
