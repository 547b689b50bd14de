// Host memory that the card reads and writes by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace hexad::device::cuda {

/// Page-locked memory of one rank, up to a limit: the rest of the machine cannot use it. Thread-safe.
class PinnedMemory {
 public:
  /// `limit` in bytes; 0: none.
  PinnedMemory(int ordinal, int64_t limit) : ordinal_(ordinal), limit_(limit) {}

  /// Null: more than the limit, or than there is.
  std::byte* allocate(int64_t bytes);
  void free(std::byte* block, int64_t bytes) noexcept;
  int64_t held() const;
  /// For messages: "memory.pinned_bytes allows 1024 bytes, of which 512 are taken".
  std::string why_not() const;

 private:
  const int ordinal_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t held_ = 0;
};

}  // namespace hexad::device::cuda
