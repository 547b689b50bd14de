// Host memory that the card reads and writes directly.
#pragma once

#include <atomic>
#include <mutex>

#include "framework/device/cuda/raw_memory.h"

namespace hexad::device::cuda {

/// Page-locked host memory of one rank. Its size can be limited, because the operating system cannot swap out
/// page-locked memory for other programs. Thread-safe.
class PinnedMemory final : public RawMemory {
 public:
  /// `limit` is in bytes; 0 means no limit.
  PinnedMemory(int ordinal, int64_t limit) : ordinal_(ordinal), limit_(limit) {}

  std::byte* allocate(int64_t bytes) override;
  void free(std::byte* block, int64_t bytes) noexcept override;
  bool is_kept() const override { return kept_; }
  /// Makes is_kept() return true from now on.
  void keep() { kept_ = true; }
  int64_t held() const;
  std::string_view name() const override { return "page-locked host memory"; }
  std::string unavailable_reason(int64_t bytes) const override;

 private:
  bool exceeds_limit(int64_t bytes) const { return limit_ && held_ + bytes > limit_; }

  const int ordinal_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t held_ = 0;
  std::atomic<bool> kept_ = false;
};

}  // namespace hexad::device::cuda
