#include "tools/train/recipe/cautions.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

namespace {

// Returns the lines of untrained() for all stages of training. Lists a line only once, without a prefix, if all stages
// have it. Each remaining line begins with its stage.
std::vector<std::string> untrained_in_stages(const Recipe& recipe) {
  std::vector<std::vector<std::string>> stages;
  for (int64_t s = 0; s < stage_count(recipe); ++s) stages.push_back(untrained(with_stage(recipe, s)));
  std::vector<std::string> all;
  for (size_t s = 0; s < stages.size(); ++s)
    for (const std::string& line : stages[s]) {
      const bool common = std::ranges::all_of(
          stages, [&](const std::vector<std::string>& stage) { return std::ranges::find(stage, line) != stage.end(); });
      if (!common) all.push_back(stage_prefix(recipe, static_cast<int64_t>(s)) + line);
      if (common && s == 0) all.push_back(line);
    }
  return all;
}

}  // namespace

std::vector<std::string> cautions(const Recipe& recipe) {
  std::vector<std::string> all;
  const int64_t warmup = recipe.optim.warmup, steps = recipe.train.steps;
  if (warmup > steps)
    all.push_back(
        fmt::format("optim.warmup ({}) is above train.steps ({}): the learning rate only rises, to {:.3g} of "
                    "optim.lr at the last step",
                    warmup, steps, static_cast<double>(steps) / static_cast<double>(warmup)));
  for (std::string& line : untrained_in_stages(recipe)) all.push_back(std::move(line));
  return all;
}

}  // namespace hexad::train
