// Stages of training. A stage is a range of steps with its own context, batch, layout and schedule. A recipe without
// `stages` has one stage, which is the whole run.
#pragma once

#include <cstdint>
#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns the number of stages, which is at least 1.
int64_t stage_count(const Recipe& recipe);
/// Returns the last step of a stage. `stage` is in [0, stage_count()).
int64_t last_step(const Recipe& recipe, int64_t stage);
/// Returns the index, from 0, of the stage that trains `step`. Steps count from 1. Steps after the run's last step
/// belong to the last stage.
int64_t stage_at(const Recipe& recipe, int64_t step);
/// Returns the recipe with the keys of `stage`. Keeps `stages` and train.steps, because the learning-rate schedule
/// spans all stages.
Recipe with_stage(Recipe recipe, int64_t stage);
/// Returns "stage 2 of 3: steps 5 to 8"; empty without `stages`.
std::string stage_text(const Recipe& recipe, int64_t stage);
/// Returns stage_text() as the beginning of a message: "stage 2 of 3: steps 5 to 8: "; empty without `stages`.
std::string stage_prefix(const Recipe& recipe, int64_t stage);
/// Throws Error(usage) if the recipe, which was read from `path`, has stages. Used by programs that support only one
/// layout.
void require_no_stages(const Recipe& recipe, const std::string& path);
/// Returns the smallest number of ranks on which the layouts of all stages are possible.
int64_t fewest_ranks(const Recipe& recipe);

/// Converts the index of a run's next sequence if the sequence length changes from `before` to `now` tokens. `next` is
/// the index at the old length. Returns the first sequence at the new length that begins at the same token or later.
int64_t continued_sequence(int64_t next, int64_t before, int64_t now);

}  // namespace hexad::train
