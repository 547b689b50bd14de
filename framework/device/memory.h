// Categories of memory use, and the account kept of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/ordinal.h"

namespace hexad::device {

/// Every allocation carries one; peaks are reported by category.
enum class Category : uint8_t { parameter, gradient, optimizer, activation, temporary, communication, offload };
inline constexpr int category_count = 7;
std::string_view name_of(Category category);

std::string human_bytes(int64_t bytes);  // "1.50 MB": three digits, powers of 1000

/// Bytes in use and their peaks. `peak_total` is the peak of the sum, at most the sum of the peaks; the offload
/// category lies in files and is not part of `total`. `held` is what was taken from the device's driver for `total`, in
/// use or not; 0 where nobody counts it.
struct MemoryStats {
  std::array<int64_t, category_count> used{}, peak{};
  int64_t total = 0, peak_total = 0;
  int64_t held = 0, peak_held = 0;

  int64_t used_in(Category c) const { return used[base::ordinal(c)]; }
  int64_t peak_in(Category c) const { return peak[base::ordinal(c)]; }
  /// Unused share of the held memory at the peak: gaps between blocks, or cached blocks. 0 if nobody counts it.
  double fragmentation() const;
  std::string table() const;  // one line a category, for out-of-memory messages
};

}  // namespace hexad::device
