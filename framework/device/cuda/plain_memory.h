// Memory of the card that cudaMalloc allocates.
#pragma once

#include "framework/device/cuda/raw_memory.h"

namespace hexad::device::cuda {

/// Source of card memory for libraries that share memory with other processes but cannot share mapped pages.
class PlainMemory final : public RawMemory {
 public:
  explicit PlainMemory(int ordinal) : ordinal_(ordinal) {}
  std::byte* allocate(int64_t bytes) override;
  void free(std::byte* block, int64_t bytes) noexcept override;
  std::string_view name() const override { return "memory of the card"; }
  std::string unavailable_reason(int64_t bytes) const override;

 private:
  const int ordinal_;
};

}  // namespace hexad::device::cuda
