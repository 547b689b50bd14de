// Allocator of the emulated device's memory, with accounting.
#pragma once

#include "framework/device/allocator.h"
#include "framework/device/emulated/heap.h"

namespace hexad::device::emulated {

/// Allocates blocks from a heap. The allocators of device memory and of offload memory may share a heap.
class EmulatedAllocator final : public Allocator {
 public:
  /// `limit` is the maximum of MemoryStats::total in bytes; 0 means no limit.
  explicit EmulatedAllocator(std::shared_ptr<Heap> heap, int64_t limit = 0) : heap_(std::move(heap)), limit_(limit) {}

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  const std::shared_ptr<Heap> heap_;
  const int64_t limit_;
};

}  // namespace hexad::device::emulated
