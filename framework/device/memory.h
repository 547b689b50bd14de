// Categories of memory use, and statistics by category.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/ordinal.h"

namespace hexad::device {

/// Category of an allocation. Peaks are reported by category.
/// `connection` is memory that a library takes for itself to connect ranks: NCCL's buffers.
enum class Category : uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,
  temporary,
  communication,
  connection,
  offload
};
inline constexpr int category_count = 8;
std::string_view name_of(Category category);

/// Bytes in use and their peaks. `peak_total` is the peak of the sum, which is at most the sum of the peaks. The
/// offload category is outside device memory and not part of `total`. `held` is the memory taken from the device's
/// driver for `total`, used or unused; 0 if it is not counted. Memory that libraries took (Allocator::account) belongs
/// to both.
struct MemoryStats {
  std::array<int64_t, category_count> used{}, peak{};
  int64_t total = 0, peak_total = 0;
  int64_t held = 0, peak_held = 0;

  int64_t used_in(Category c) const { return used[base::ordinal(c)]; }
  int64_t peak_in(Category c) const { return peak[base::ordinal(c)]; }
  /// Returns the unused share of the held memory at the peak: gaps between blocks, or cached blocks. 0 if `held` is not
  /// counted.
  double fragmentation() const;
  std::string table() const;  // one line per category, for out-of-memory messages
};

}  // namespace hexad::device
