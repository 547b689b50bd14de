#include "framework/device/meta/meta_allocator.h"

#include "framework/device/allocator.h"

namespace hexad::device {

void MetaAllocator::take(int64_t bytes, Category category) {
  std::lock_guard lock(mutex_);
  count_locked(bytes, category);
  hold(rounded_ += bytes < 0 ? -block_size(-bytes) : block_size(bytes));
}

void* MetaAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  take(bytes, category);
  return memory_->reserve(bytes,
                          category == Category::offload ? MetaMemory::Place::offloaded : MetaMemory::Place::device);
}

void MetaAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  take(-bytes, category);
  memory_->release(block);
}

}  // namespace hexad::device
