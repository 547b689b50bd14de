#include "tools/train/checkpoint/run_directory.h"

#include "framework/base/error.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {
namespace {

// Returns the settings of a layout that must agree with the layout of the run's measurements, as text.
std::string layout_text(const ParallelConfig& p) {
  return base::cat("pp ", p.pp, ", tp ", p.tp, ", sp ", p.sp ? "true" : "false", ", cp ", p.cp, ", ep ", p.ep, ", etp ",
                   p.etp.value_or(p.tp));
}

// Returns the reason why `recipe` cannot use the schedule that the run had chosen; empty if it can. `trained` is the
// layout of the run, and `config` is the recipe's schedule.moe with the chosen values.
std::string obstacle(const Recipe& recipe, const ParallelConfig& trained, const moe::MoeScheduleConfig& config) {
  const std::string here = layout_text(recipe.parallel), there = layout_text(trained);
  if (here != there)
    return base::cat("it was measured with ", there, ", and this layout has ", here,
                     "; to use it, set the same layout, or its values in schedule.moe");
  const auto refusals = contradictions(recipe, config.settled());
  return refusals.empty() ? ""
                          : base::cat("it is illegal in this recipe: schedule.moe.", refusals.front().key, " ",
                                      refusals.front().what);
}

}  // namespace

ChosenSchedule take_chosen_schedule(SavedRun& run) {
  Recipe& recipe = run.recipe;
  if (recipe.model.moe.experts == 0 || !recipe.schedule.moe.open()) return {};
  const std::string text = saved_progress(run.checkpoint).schedule;
  if (text.empty()) return {.unused = base::cat("the run had not chosen a schedule at step ", run.checkpoint.step())};
  const auto chosen = moe::schedule_named(text);
  const auto unused = [&](const std::string& why) {
    return ChosenSchedule{.unused = base::cat("the run's choice (", text, ") is not used: ", why)};
  };
  if (!chosen) return unused("this program does not know such a schedule");
  const Recipe saved = saved_recipe(run.checkpoint);
  const Recipe trained = with_stage(saved, stage_at(saved, run.checkpoint.step()));
  moe::MoeScheduleConfig config = recipe.schedule.moe;
  config.choose_open(*chosen);
  if (const std::string why = obstacle(recipe, trained.parallel, config); !why.empty()) return unused(why);
  recipe.schedule.moe = config;
  return {.used = moe::to_string(config.settled())};
}

}  // namespace hexad::train
