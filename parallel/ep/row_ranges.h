// Ranges of consecutive rows of a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"

namespace hexad::ep {

using tensor::Tensor;

/// Rows [begin, end) of a tensor.
struct RowRange {
  int64_t begin, end;
  bool operator==(const RowRange&) const = default;
};

/// Ranges of rows, in the order in which they were added. A range that continues the previous one is merged with it.
class RowRanges {
 public:
  /// Adds rows [begin, end). Ignores an empty range.
  void add(int64_t begin, int64_t end);
  const std::vector<RowRange>& list() const { return list_; }
  /// Returns the number of rows.
  int64_t rows() const;
  /// True if the rows form at most one range, so that they need not be copied.
  bool adjacent() const { return list_.size() <= 1; }

  /// Returns the part of `all` with these rows. It shares the memory of `all`. Requires adjacent().
  Tensor part_of(const Tensor& all) const;
  /// Returns these rows of `all`, one range after the other: part_of(all) if they are adjacent, otherwise a copy.
  Tensor taken_from(const Tensor& all, device::Stream& stream) const;
  /// Copies `taken` to these rows of `all`. Inverse of taken_from().
  void scatter_into(const Tensor& all, const Tensor& taken, device::Stream& stream) const;

 private:
  std::vector<RowRange> list_;
};

}  // namespace hexad::ep
