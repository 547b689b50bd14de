// Interface of memory whose allocation is slow. Allocators keep such memory and reuse it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::device::cuda {

/// Source of memory without a cache. Thread-safe.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  /// Allocates a block; returns null if the source has no memory left or its limit would be exceeded. Throws
  /// Error(resource) if the allocation fails for another reason.
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void free(std::byte* block, int64_t bytes) noexcept = 0;
  /// True if memory must not be freed before the end of the context. An allocator that has reached the limit then
  /// reuses its blocks or fails.
  virtual bool is_kept() const { return false; }
  /// Returns the name of the memory for messages, such as "page-locked host memory".
  virtual std::string_view name() const = 0;
  /// Returns the reason why `bytes` bytes cannot be allocated, and the remedy if there is one, for messages. Example:
  /// "memory.pinned_bytes allows 1024 bytes, of which 512 are taken; increase memory.pinned_bytes".
  virtual std::string unavailable_reason(int64_t bytes) const = 0;
};

}  // namespace hexad::device::cuda
