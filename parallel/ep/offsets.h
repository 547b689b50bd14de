// Conversion of counts to offsets.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace hexad::ep {

/// Returns the exclusive prefix sums of `counts`, followed by their total.
inline std::vector<int64_t> offsets_of(std::span<const int64_t> counts) {
  std::vector<int64_t> offsets(counts.size() + 1, 0);
  std::inclusive_scan(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

inline int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace hexad::ep
