#include "tools/train/recipe/training_stages.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "framework/base/counted.h"

namespace hexad::train {

int64_t stage_count(const Recipe& recipe) { return std::max<int64_t>(1, std::ssize(recipe.stages)); }

int64_t last_step(const Recipe& recipe, int64_t stage) {
  if (recipe.stages.empty()) return recipe.train.steps;
  int64_t step = 0;
  for (int64_t s = 0; s <= stage; ++s) step += recipe.stages[s].steps;
  return step;
}

int64_t stage_at(const Recipe& recipe, int64_t step) {
  int64_t stage = 0;
  while (stage + 1 < stage_count(recipe) && step > last_step(recipe, stage)) ++stage;
  return stage;
}

Recipe with_stage(Recipe recipe, int64_t stage) {
  if (recipe.stages.empty()) return recipe;
  const StageConfig& s = recipe.stages[stage];
  recipe.model.context = s.context;
  recipe.model.rotary_theta = s.rotary_theta;
  recipe.model.yarn = s.yarn;
  recipe.model.rotary_scaling = s.rotary_scaling;
  recipe.optim.lr = s.lr;
  recipe.recompute = s.recompute;
  recipe.batch = s.batch;
  recipe.parallel = s.parallel;
  static_cast<StageSchedule&>(recipe.schedule) = s.schedule;
  return recipe;
}

std::string stage_text(const Recipe& recipe, int64_t stage) {
  if (recipe.stages.empty()) return {};
  const int64_t first = stage == 0 ? 1 : last_step(recipe, stage - 1) + 1;
  return fmt::format("stage {} of {}: steps {} to {}", stage + 1, stage_count(recipe), first, last_step(recipe, stage));
}

std::string stage_prefix(const Recipe& recipe, int64_t stage) {
  const std::string text = stage_text(recipe, stage);
  return text.empty() ? text : text + ": ";
}

void require_no_stages(const Recipe& recipe, const std::string& path) {
  if (!recipe.stages.empty())
    base::fail(base::ExitCode::usage, path, ": has ", base::counted(std::ssize(recipe.stages), "stage"),
               ", but only one layout can be measured; set stages=[] and the keys of a stage on the command line");
}

int64_t fewest_ranks(const Recipe& recipe) {
  int64_t ranks = recipe.parallel.fewest_ranks();
  for (const StageConfig& s : recipe.stages) ranks = std::lcm(ranks, s.parallel.fewest_ranks());
  return ranks;
}

int64_t continued_sequence(int64_t next, int64_t before, int64_t now) { return (next * before + now - 1) / now; }

}  // namespace hexad::train
