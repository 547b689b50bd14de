// Check that a recipe's model and batch can be split as its section `parallel` requires.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds every broken rule, with the arithmetic and the nearest legal values. If `world` > 0, also checks that the
/// layout fits that number of ranks.
void check_layout(const Recipe& recipe, int64_t world, config::Problems& problems);

/// Adds "model.heads (5) must be divisible by parallel.tp (2); nearest: 4, 6", unless one of the two values is itself
/// illegal.
void check_divisible(config::Problems& problems, std::string_view path, int64_t value, std::string_view by,
                     int64_t divisor);

}  // namespace hexad::train
