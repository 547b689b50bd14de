// Source of memory that is slow to allocate, for allocators that keep and reuse it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::device::cuda {

/// Memory that is allocated and freed directly. Thread-safe.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  /// Returns null if no memory is left.
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void free(std::byte* block, int64_t bytes) noexcept = 0;
  /// True if memory must not be freed before the end of the context. A full pool then reuses its blocks, or fails.
  virtual bool is_kept() const { return false; }
  /// Texts for messages: "page-locked host memory", and "memory.pinned_bytes allows 1024 bytes, of which 512 are
  /// taken".
  virtual std::string_view name() const = 0;
  virtual std::string unavailable_reason() const = 0;
};

}  // namespace hexad::device::cuda
