#include "framework/base/median.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::base {

double median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double lower_median(std::vector<double> values) {
  require(!values.empty(), "[lower_median] there are no values, expected at least one");
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace hexad::base
