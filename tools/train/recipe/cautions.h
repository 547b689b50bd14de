// Cautions about settings that are legal in a recipe, but hardly meant.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// One line each, naming the keys. No errors: a trial of a few steps of a long recipe is usual, and the recipe that a
/// run leaves in its directory must be readable afterwards.
std::vector<std::string> cautions(const Recipe& recipe);

}  // namespace hexad::train
