#include "framework/device/emulated/emulated_pinned_memory.h"

#include "framework/base/error.h"

namespace hexad::device::emulated {

std::shared_ptr<std::byte> PinnedMemory::take(int64_t bytes) {
  std::byte* begin = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (limit_ && held_ + bytes > limit_)
      base::fail(base::ExitCode::resource, "out of page-locked host memory: a buffer of ", bytes,
                 " bytes is needed for copies, but memory.pinned_bytes allows ", limit_, " bytes, of which ", held_,
                 " are taken; increase memory.pinned_bytes");
    begin = new std::byte[bytes > 0 ? bytes : 1];
    held_ += bytes;
  }
  const std::shared_ptr<std::byte> buffer(begin, [self = shared_from_this(), bytes](std::byte* p) {
    {
      std::lock_guard lock(self->mutex_);
      self->held_ -= bytes;
      self->buffers_.erase(p);
    }
    delete[] p;
  });
  std::lock_guard lock(mutex_);
  buffers_[begin] = {bytes, buffer};
  return buffer;
}

std::shared_ptr<std::byte> PinnedMemory::holder_of(const void* place) const {
  const auto* p = static_cast<const std::byte*>(place);
  std::lock_guard lock(mutex_);
  auto it = buffers_.upper_bound(p);
  if (it == buffers_.begin()) return nullptr;
  --it;
  return p < it->first + it->second.bytes ? it->second.owner.lock() : nullptr;
}

}  // namespace hexad::device::emulated
