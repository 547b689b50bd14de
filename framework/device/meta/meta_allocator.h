// Allocator that counts bytes without allocating memory.
#pragma once

#include <memory>

#include "framework/device/allocator.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

class IssueLog;

/// Counts bytes by category like a real allocator. MemoryStats::held is the memory that the blocks in use would need
/// under memory.limit_bytes: each block is rounded up as in CachingAllocator (block_size()). Freed blocks do not count,
/// because CachingAllocator frees its cache before it refuses a request.
class MetaAllocator final : public Allocator {
 public:
  /// Makes an allocator that records changes of the memory in use in the parts of `log` that count memory. `log` may be
  /// null.
  explicit MetaAllocator(std::shared_ptr<MetaMemory> memory, std::shared_ptr<IssueLog> log = nullptr)
      : Allocator(Held::measured, Live::not_listed), memory_(std::move(memory)), log_(std::move(log)) {}
  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  void recategorise(int64_t bytes, Category from, Category to) override;
  bool on_host() const override { return false; }

  /// Change of the memory in use: a category has `bytes` bytes more, or fewer if `bytes` is negative. `block` is true
  /// if a block is allocated or freed, and false if the category of an existing block changes.
  struct Change {
    int64_t bytes;
    Category category;
    bool block;
    bool operator==(const Change&) const = default;
  };
  /// Counts and records a change without allocating or freeing a block, for work that is repeated without running it.
  void count_change(const Change& change);

 private:
  const std::shared_ptr<MetaMemory> memory_;
  const std::shared_ptr<IssueLog> log_;
  int64_t rounded_ = 0;  // bytes of the blocks in use, each rounded up
};

}  // namespace hexad::device
