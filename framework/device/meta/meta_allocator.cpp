#include "framework/device/meta/meta_allocator.h"

#include "framework/device/allocator.h"

namespace hexad::device {

void MetaAllocator::take(int64_t bytes) {
  std::lock_guard lock(mutex_);
  hold(blocks_ += bytes);
}

void* MetaAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  count(bytes, category);
  take(block_size(bytes));
  return memory_->reserve(bytes,
                          category == Category::offload ? MetaMemory::Place::offloaded : MetaMemory::Place::device);
}

void MetaAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  take(-block_size(bytes));
  memory_->release(block);
}

}  // namespace hexad::device
