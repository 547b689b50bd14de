// Outliers among measurements of equal parts, such as ranks or links (docs/check-cluster.md states the rule).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hexad::check_cluster {

/// Limits that a value must reach to count as slow. slow_values() also applies a limit that depends on the spread of
/// all values.
struct Rule {
  double ratio;             // least ratio of the value to its reference
  double least_excess = 0;  // least difference between the value and its reference, in the unit of the values
};

/// A slow value.
struct Slow {
  size_t index;      // index of the value
  double reference;  // lower median of the other values
  double times;      // ratio of the value to its reference
};

/// Returns the slow values among durations, in the order of their indices. A value is slow if all of these hold:
/// - It is at least `rule.ratio` times the lower median of the other values.
/// - It exceeds this median by at least `rule.least_excess`.
/// - It exceeds this median by more than 4 x 1.4826 times the median absolute deviation of all values.
///
/// All medians are lower medians. Therefore, the median absolute deviation of two values is 0, and the larger value
/// always meets the third condition.
std::vector<Slow> slow_values(std::span<const double> durations, const Rule& rule);

}  // namespace hexad::check_cluster
