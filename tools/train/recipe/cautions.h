// Warnings about settings that are legal in a recipe, but probably a mistake.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns one line for each warning; the line names the keys. The settings are not errors: short trials of a long
/// recipe are common, and the recipe in a run directory must remain readable. A line that concerns only one stage of
/// training begins with stage_prefix().
std::vector<std::string> cautions(const Recipe& recipe);

/// Returns the lines of cautions() about parameters that get no gradient from the data, for the recipe's current stage
/// (see with_stage()). There is one line for each setting that makes the loss independent of some parameters. Such
/// parameters change only by auxiliary losses, rounding or weight decay, or not at all. Each line names the keys, the
/// parameters, and the setting to use instead.
std::vector<std::string> untrained(const Recipe& recipe);

}  // namespace hexad::train
