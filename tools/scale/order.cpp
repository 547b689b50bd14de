#include "tools/scale/order.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::scale {

std::vector<Execution> shuffled_order(int64_t points, int64_t repeats, int64_t seed) {
  std::vector<Execution> order;
  for (int64_t repeat = 1; repeat <= repeats; ++repeat) {
    std::vector<std::pair<uint32_t, int64_t>> keys;
    for (int64_t point = 0; point < points; ++point)
      keys.emplace_back(base::Philox(seed, base::Purpose::shuffle, base::cat("scale, repeat ", repeat)).bits(point),
                        point);
    std::ranges::sort(keys);
    for (const auto& [key, point] : keys) order.push_back({.point = point, .repeat = repeat});
  }
  return order;
}

}  // namespace hexad::scale
