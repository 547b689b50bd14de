// A contiguous range of a tensor's elements.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hexad::base {

/// Elements [begin, end) of a tensor in row-major order.
struct FlatRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const FlatRange&) const = default;
};

/// Returns the range of elements that are in both ranges; empty if the ranges do not overlap.
inline FlatRange intersection(const FlatRange& a, const FlatRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace hexad::base
