#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hexad::optim {

double learning_rate(const OptimConfig& c, int64_t step, int64_t total) {
  if (step <= c.warmup) return c.lr * static_cast<double>(step) / static_cast<double>(c.warmup);
  const auto length = static_cast<double>(std::max<int64_t>(1, total - c.warmup));
  // Progress of training after the warm-up: 0 at the end of the warm-up, 1 at the end of training.
  const double x = std::min(1.0, static_cast<double>(step - c.warmup) / length);
  const auto between = [&](double share) { return c.lr * (c.min_lr_ratio + (1 - c.min_lr_ratio) * share); };
  switch (c.schedule) {
    case ScheduleKind::constant:
      return c.lr;
    case ScheduleKind::cosine:
      return between(0.5 * (1 + std::cos(std::numbers::pi * x)));
    case ScheduleKind::linear:
      return between(1 - x);
    case ScheduleKind::wsd: {
      // Length of the final decay, in the unit of x.
      const double decay = c.decay_fraction * static_cast<double>(total) / length;
      return decay <= 0 ? c.lr : between(std::clamp((1 - x) / decay, 0.0, 1.0));
    }
  }
  return c.lr;
}

}  // namespace hexad::optim
