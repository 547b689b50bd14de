// Global indices of the elements of a rank's piece of a tensor.
#pragma once

#include <cstdint>
#include <limits>

#include "framework/base/placement.h"

namespace hexad::base {

/// Maps the elements of a flat range of a rank's piece to their indices in the whole tensor. The piece consists of runs
/// of `run` elements that are contiguous in the whole tensor and whose starts are `stride` elements apart. A
/// default-constructed map maps every element to itself.
struct GlobalIndex {
  int64_t begin = 0;  // index of the range's first element in the piece
  int64_t first = 0;  // index of the piece's first element in the whole tensor
  int64_t run = std::numeric_limits<int64_t>::max(), stride = 0;

  struct Position {
    int64_t index;  // index in the whole tensor
    int64_t left;   // number of elements from this element to the end of its run
  };
  /// Returns the position of element `i` of the range.
  constexpr Position at(int64_t i) const {
    const int64_t local = begin + i, before = local < run ? 0 : local / run, in_run = local - before * run;
    return {first + before * stride + in_run, run - in_run};
  }
  /// Replaces `p` by the position of the next element.
  constexpr void advance(Position& p) const {
    ++p.index;
    if (--p.left == 0) p.index += stride - run, p.left = run;
  }
  /// Returns the map for the range that begins `count` elements later.
  constexpr GlobalIndex from(int64_t count) const { return {begin + count, first, run, stride}; }
};

/// Returns the map for a range of the piece `region` of a tensor of shape `global`. The range begins at element `begin`
/// of the piece. Throws std::logic_error if the runs of the piece are not evenly spaced. Uneven runs are possible only
/// if three or more dimensions are divided, or two dimensions other than dimension 0.
GlobalIndex global_index(const Shape& global, const Placement::Region& region, int64_t begin);

}  // namespace hexad::base
