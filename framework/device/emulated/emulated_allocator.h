// Accounts of the emulated device's memory.
#pragma once

#include "framework/device/allocator.h"
#include "framework/device/emulated/heap.h"

namespace hexad::device::emulated {

/// Blocks of a heap, which may have other allocators, too: one for what was offloaded.
class EmulatedAllocator final : public Allocator {
 public:
  /// `limit` in bytes, of the blocks in use; 0: none.
  explicit EmulatedAllocator(std::shared_ptr<Heap> heap, int64_t limit = 0) : heap_(std::move(heap)), limit_(limit) {}

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  const std::shared_ptr<Heap> heap_;
  const int64_t limit_;
};

}  // namespace hexad::device::emulated
