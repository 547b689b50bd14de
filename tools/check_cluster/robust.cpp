#include "tools/check_cluster/robust.h"

#include <algorithm>
#include <cmath>

#include "framework/base/median.h"

namespace hexad::check_cluster {
namespace {

constexpr double deviations = 4;
// Standard deviation of normally distributed values with a median absolute deviation of 1.
constexpr double normal_scale = 1.4826;

}  // namespace

std::vector<Slow> slow_values(std::span<const double> durations, const Rule& rule) {
  if (durations.size() < 2) return {};
  std::vector<double> sorted(durations.begin(), durations.end());
  std::sort(sorted.begin(), sorted.end());
  const double center = sorted[(sorted.size() - 1) / 2];
  std::vector<double> distances;
  for (const double value : sorted) distances.push_back(std::abs(value - center));
  const double spread = normal_scale * base::lower_median(std::move(distances));
  const size_t middle = (sorted.size() - 2) / 2;  // index of the lower median of all other values
  std::vector<Slow> slow;
  for (size_t i = 0; i < durations.size(); ++i) {
    const double value = durations[i];
    const size_t own = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    const double reference = sorted[middle < own ? middle : middle + 1];
    const double excess = value - reference;
    if (excess > 0 && value >= rule.ratio * reference && excess >= rule.least_excess && excess > deviations * spread)
      slow.push_back({i, reference, value / reference});
  }
  return slow;
}

}  // namespace hexad::check_cluster
