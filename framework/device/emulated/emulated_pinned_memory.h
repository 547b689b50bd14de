// Host memory that the emulated device copies without the host's help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace hexad::device::emulated {

/// Records the pinned buffers that were handed out, and keeps them alive while copies are in flight. Owned by
/// shared_ptr, which the buffers hold. Thread-safe.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  /// `limit` in bytes; 0: none. take() throws Error(resource) if it would exceed the limit.
  explicit PinnedMemory(int64_t limit = 0) : limit_(limit) {}
  std::shared_ptr<std::byte> take(int64_t bytes);
  /// Returns the buffer that contains `place`; null for other memory.
  std::shared_ptr<std::byte> holder_of(const void* place) const;

 private:
  struct Buffer {
    int64_t bytes;
    std::weak_ptr<std::byte> owner;
  };
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t held_ = 0;
  std::map<const std::byte*, Buffer> buffers_;  // by their first byte
};

}  // namespace hexad::device::emulated
