#include "framework/device/meta/meta_allocator.h"

#include "framework/device/allocator.h"
#include "framework/device/meta/issue_log.h"

namespace hexad::device {

void MetaAllocator::count_change(const Change& change) {
  {
    std::lock_guard lock(mutex_);
    count_locked(change.bytes, change.category);
    if (change.block) hold(rounded_ += change.bytes < 0 ? -block_size(-change.bytes) : block_size(change.bytes));
  }
  if (log_) log_->record_memory(*this, change);
}

void* MetaAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  count_change({bytes, category, true});
  return memory_->reserve(bytes,
                          category == Category::offload ? MetaMemory::Place::offloaded : MetaMemory::Place::device);
}

void MetaAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count_change({-bytes, category, true});
  memory_->release(block);
}

void MetaAllocator::recategorise(int64_t bytes, Category from, Category to) {
  if (bytes == 0) return;  // a request of 0 bytes allocates no block
  count_change({-bytes, from, false});
  count_change({bytes, to, false});
}

}  // namespace hexad::device
