// Warnings about settings that are legal in a recipe, but probably a mistake.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns a line for each warning, with its keys. They are not errors, for two reasons: short trials of a long recipe
/// are usual, and the recipe in a run's directory must stay readable afterwards.
std::vector<std::string> cautions(const Recipe& recipe);

}  // namespace hexad::train
