// Checks that a recipe's model and batch can be cut as its section `parallel` says.
#pragma once

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds every rule that is broken, with the arithmetic and the nearest legal values. `world` > 0: also whether the
/// layout fits that number of ranks.
void check_layout(const Recipe& recipe, int64_t world, config::Problems& problems);

}  // namespace hexad::train
