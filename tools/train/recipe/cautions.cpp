#include "tools/train/recipe/cautions.h"

#include <fmt/format.h>

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

}  // namespace hexad::train
