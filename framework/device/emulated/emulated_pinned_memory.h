// Host memory that the emulated device copies asynchronously, like a card's page-locked memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace hexad::device::emulated {

/// Allocates pinned buffers. A copy in flight keeps its buffers alive through holder_of(). A shared_ptr must own the
/// PinnedMemory, because each buffer shares this ownership. Thread-safe.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  /// `limit` is the maximum total size of the buffers in bytes; 0 means no limit.
  explicit PinnedMemory(int64_t limit = 0) : limit_(limit) {}
  /// Allocates a buffer. Throws Error(resource) if the limit would be exceeded.
  std::shared_ptr<std::byte> take(int64_t bytes);
  /// Returns the buffer that contains the address `place`; null if there is none.
  std::shared_ptr<std::byte> holder_of(const void* place) const;

 private:
  struct Buffer {
    int64_t bytes;
    std::weak_ptr<std::byte> owner;
  };
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t held_ = 0;
  std::map<const std::byte*, Buffer> buffers_;  // buffers by the address of their first byte
};

}  // namespace hexad::device::emulated
