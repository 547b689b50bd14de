// Divisors of a number.
#pragma once

#include <cstdint>
#include <vector>

namespace hexad::base {

/// Returns the divisors of n, ascending; none if n is below 1.
inline std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

}  // namespace hexad::base
