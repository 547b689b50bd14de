// Warnings about settings that are legal in a recipe, but probably a mistake.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns a line for each warning, with its keys. These settings are not errors, for two reasons: short trials of a
/// long recipe are usual, and the recipe in a run's directory must stay readable. Lines that concern only some stages
/// of training begin with the stage_prefix() of their stage.
std::vector<std::string> cautions(const Recipe& recipe);

/// Returns the lines of cautions() about parameters without a gradient, for the first stage (see with_stage()). There
/// is one line for each setting under which the loss does not depend on some parameters. Such parameters change only by
/// rounding or weight decay, or not at all. Each line has the keys, the parameters, and the setting to use instead.
std::vector<std::string> untrained(const Recipe& recipe);

}  // namespace hexad::train
