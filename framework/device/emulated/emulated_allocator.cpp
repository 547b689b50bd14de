#include "framework/device/emulated/emulated_allocator.h"

#include "framework/base/error.h"

namespace hexad::device::emulated {

void* EmulatedAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const bool fits = limit_ == 0 || stats().total + bytes <= limit_;
  void* block = fits ? heap_->allocate(bytes) : nullptr;
  if (!block)
    base::fail(base::ExitCode::resource, "out of memory of the emulated device: ", name_of(category), " block of ",
               bytes, " bytes", limit_ ? base::cat(" does not fit under the limit of ", limit_, " bytes") : "",
               "; in use:\n", stats().table(), "largest blocks:\n", largest_blocks());
  count(bytes, category);
  return block;
}

void EmulatedAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  heap_->free(block);
}

}  // namespace hexad::device::emulated
