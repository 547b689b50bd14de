// Checks that a recipe's model and batch can be split as its section `parallel` requires.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds a problem for every broken rule, with the numbers that the rule compares. If `world` > 0, also checks that the
/// layout fits `world` ranks.
void check_layout(const Recipe& recipe, int64_t world, config::Problems& problems);

/// Adds a problem such as "model.heads (5) must be divisible by parallel.tp (2); nearest: 4, 6" if `divisor` does not
/// divide `value`. Does nothing if one of the two values is itself illegal.
void check_divisible(config::Problems& problems, std::string_view path, int64_t value, std::string_view by,
                     int64_t divisor);

}  // namespace hexad::train
