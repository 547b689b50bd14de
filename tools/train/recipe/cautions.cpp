#include "tools/train/recipe/cautions.h"

#include <cmath>

#include <fmt/ranges.h>

#include "optim/lr_schedule.h"
#include "tools/train/recipe/untrained.h"

namespace hexad::train {

std::vector<std::string> cautions(const Recipe& recipe) {
  std::vector<std::string> all;
  const int64_t warmup = recipe.optim.warmup, steps = recipe.train.steps;
  if (warmup > steps)
    all.push_back(
        fmt::format("optim.warmup ({}) is above train.steps ({}): the learning rate only rises, to {:.3g} of "
                    "optim.lr at the last step",
                    warmup, steps, static_cast<double>(steps) / static_cast<double>(warmup)));
  for (std::string& line : untrained(recipe)) all.push_back(std::move(line));
  return all;
}

std::string learning_rate_jump(const Recipe& before, const Recipe& now, int64_t step) {
  const int64_t next = step + 1;
  const double was = optim::learning_rate(before.optim, next, before.train.steps);
  const double is = optim::learning_rate(now.optim, next, now.train.steps);
  if (std::abs(is - was) <= 0.05 * was) return {};
  std::vector<std::string> reasons;
  for (const std::string& line : config::differences(before.optim, now.optim)) reasons.push_back("optim." + line);
  if (before.train.steps != now.train.steps)
    reasons.push_back(fmt::format("train.steps: {} -> {}", before.train.steps, now.train.steps));
  return fmt::format("the learning rate of step {} is {:.4g}; as the run was going it would be {:.4g}{} ({})", next, is,
                     was, was > 0 ? fmt::format(", so it changes {:.3g} times at once", is / was) : "",
                     fmt::join(reasons, ", "));
}

}  // namespace hexad::train
