// Order in which the runs of an experiment are executed.
#pragma once

#include <cstdint>
#include <vector>

namespace hexad::scale {

/// One run: a point and the number of its repeat, starting at 1.
struct Execution {
  int64_t point = 0, repeat = 1;
  bool operator==(const Execution&) const = default;
};

/// Returns every repeat of every point. All points run once before any point runs again, in another order each time. A
/// slow phase of a shared machine therefore does not affect only one point. The order depends only on the arguments.
std::vector<Execution> shuffled_order(int64_t points, int64_t repeats, int64_t seed);

}  // namespace hexad::scale
