#include "framework/device/emulated/emulated_allocator.h"

namespace hexad::device::emulated {

void* EmulatedAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const bool fits = limit_ == 0 || stats().total + bytes <= limit_;
  void* block = fits ? heap_->allocate(bytes) : nullptr;
  if (!block) refuse("out of memory of the emulated device", bytes, category, fits ? 0 : limit_);
  count(bytes, category);
  return block;
}

void EmulatedAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  heap_->free(block);
}

}  // namespace hexad::device::emulated
