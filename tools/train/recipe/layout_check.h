// Check that a recipe's model and batch can be split as its section `parallel` requires.
#pragma once

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds every broken rule, with the arithmetic and the nearest legal values. If `world` > 0, also checks that the
/// layout fits that number of ranks.
void check_layout(const Recipe& recipe, int64_t world, config::Problems& problems);

}  // namespace hexad::train
