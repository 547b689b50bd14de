// Whether a recipe's section `schedule.moe` makes sense for its layout.
#pragma once

#include "framework/config/problems.h"
#include "tools/hexad/recipe.h"

namespace hexad::app {

/// Adds every choice that contradicts another one or the layout, with the reason and what is legal.
void check_moe_schedule(const Recipe& recipe, config::Problems& problems);

/// Adds a schedule.moe.order that is not registered, with those that are, nearest first, or whose steps are illegal for
/// the recipe's schedule.
void check_moe_order(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

}  // namespace hexad::app
