// Cautions about settings that are legal in a recipe, but hardly meant.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// One line each, naming the keys. No errors: a trial of a few steps of a long recipe is usual, and the recipe that a
/// run leaves in its directory must be readable afterwards.
std::vector<std::string> cautions(const Recipe& recipe);

/// A line with both values if a run that goes on after `step` has a learning rate in its next step that differs by more
/// than a twentieth from what it would be under `before`, the recipe of its checkpoint; else empty.
std::string learning_rate_jump(const Recipe& before, const Recipe& now, int64_t step);

}  // namespace hexad::train
