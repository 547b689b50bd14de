// Categories of memory use, and statistics by category.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/ordinal.h"

namespace hexad::device {

/// Category of an allocation. Memory in use and its peaks are reported by category.
/// `connection` is memory that a library allocates to connect ranks, such as NCCL's buffers.
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

/// Bytes in use by category and in total, and their peaks:
/// - `total`: sum of all categories except offload, which is outside device memory
/// - `peak_total`: peak of `total`, which is at most the sum of the categories' peaks
/// - `held`: memory allocated from the device's driver, used or unused (on a meta device, see MetaAllocator); 0 if it
///   is not measured
/// Memory that libraries allocated (Allocator::account) is part of `total` and of `held`.
struct MemoryStats {
  std::array<int64_t, category_count> used{}, peak{};
  int64_t total = 0, peak_total = 0;
  int64_t held = 0, peak_held = 0;

  int64_t used_in(Category c) const { return used[base::ordinal(c)]; }
  int64_t peak_in(Category c) const { return peak[base::ordinal(c)]; }
  /// Returns 1 - peak_total / peak_held: the share of held memory in gaps between blocks and in cached blocks. The
  /// result is 0 if `held` is not measured.
  double fragmentation() const;
  /// Returns one line per category, one line for the total and, if `held` is measured, one line for `held`.
  std::string table() const;
};

}  // namespace hexad::device
