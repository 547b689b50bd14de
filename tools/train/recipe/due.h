// Work that a recipe schedules after a step.
#pragma once

#include <cstdint>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Work that is due after a step. A member is true if its work is due.
struct Due {
  bool weights = false;     // updates and gathers of weights must end in this step: other work than a step reads
                            // weights or states next, or no step follows that could overlap the updates and gathers
  bool evaluation = false;  // evaluation of a sample of the held-out set
  bool save = false;        // regular save, which may fail under checkpoint.on_failure: go_on
  bool last_save = false;   // save at the end of a stage or run, which must succeed
};

/// Returns the work that is due after `step` of `stage`. `recipe` is the recipe of this stage (see with_stage()).
Due due_after(const Recipe& recipe, int64_t stage, int64_t step);

}  // namespace hexad::train
