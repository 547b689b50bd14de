#include "tools/plan/least_squares.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::plan {

Fit fit_alpha_beta(std::span<const config::Curve::Point> samples) {
  // Around the means: sums of x^2 of sizes that span decades would cancel.
  double mean_x = 0, mean_y = 0;
  for (const auto& [x, y] : samples) {
    mean_x += x / static_cast<double>(samples.size());
    mean_y += y / static_cast<double>(samples.size());
  }
  double xx = 0, xy = 0;
  for (const auto& [x, y] : samples) {
    xx += (x - mean_x) * (x - mean_x);
    xy += (x - mean_x) * (y - mean_y);
  }
  base::require(xx > 0, "[fit_alpha_beta] a line needs samples of two sizes");
  Fit fit;
  fit.line.beta = xy / xx;
  fit.line.alpha = mean_y - fit.line.beta * mean_x;
  for (const auto& [x, y] : samples)
    if (y != 0) fit.worst_relative_error = std::max(fit.worst_relative_error, std::fabs(fit.line(x) / y - 1));
  return fit;
}

}  // namespace hexad::plan
