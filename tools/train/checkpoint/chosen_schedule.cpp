#include "tools/train/checkpoint/run_directory.h"

#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {
namespace {

// True if the layouts agree in pp, tp, sp, cp, ep and etp.
bool same_layout(const ParallelConfig& a, const ParallelConfig& b) {
  return a.pp == b.pp && a.tp == b.tp && a.sp == b.sp && a.cp == b.cp && a.ep == b.ep &&
         a.etp.value_or(a.tp) == b.etp.value_or(b.tp);
}

}  // namespace

std::string take_chosen_schedule(SavedRun& run) {
  Recipe& recipe = run.recipe;
  if (recipe.model.moe.experts == 0 || !recipe.schedule.moe.open()) return {};
  const auto chosen = moe::schedule_named(saved_progress(run.checkpoint).schedule);
  if (!chosen) return {};
  const Recipe saved = saved_recipe(run.checkpoint);
  const Recipe trained = with_stage(saved, stage_at(saved, run.checkpoint.step()));
  if (!same_layout(recipe.parallel, trained.parallel)) return {};
  moe::MoeScheduleConfig config = recipe.schedule.moe;
  config.choose_open(*chosen);
  if (!contradictions(recipe, config.settled()).empty()) return {};
  recipe.schedule.moe = config;
  return moe::to_string(config.settled());
}

}  // namespace hexad::train
