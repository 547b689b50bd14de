// Parameters that cannot get a gradient.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Settings of the recipe under which the loss does not depend on some parameters, so that these move by rounding, by
/// weight decay or not at all. One line each, naming the keys, the parameters, and what to write instead.
std::vector<std::string> untrained(const Recipe& recipe);

}  // namespace hexad::train
