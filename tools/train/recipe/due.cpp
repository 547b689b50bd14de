#include "tools/train/recipe/due.h"

#include "tools/train/recipe/training_stages.h"

namespace hexad::train {
namespace {

bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

Due due_after(const Recipe& recipe, int64_t stage, int64_t step) {
  const bool last = step == last_step(recipe, stage);
  const bool evaluation = is_multiple(step, recipe.train.eval_every);
  const bool save = is_multiple(step, recipe.checkpoint.every);
  const bool replica_check = is_multiple(step, recipe.distributed.replica_check_every);
  const bool last_stage = stage + 1 == stage_count(recipe);
  // After the last step, StageTrainer evaluates the whole held-out set instead of a sample. The next stage begins with
  // the checkpoint of this stage, so a stage that is not the last is always saved.
  return {.weights = last || evaluation || save || replica_check,
          .evaluation = evaluation && !last,
          .save = save,
          .last_save = last && (recipe.checkpoint.at_end || !last_stage)};
}

}  // namespace hexad::train
