// Report of parameters that cannot get a gradient.
#pragma once

#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns a line for each setting of the recipe under which the loss does not depend on some parameters. Such
/// parameters change only by rounding or weight decay, or not at all. Each line has the keys, the parameters, and the
/// setting to use instead.
std::vector<std::string> untrained(const Recipe& recipe);

}  // namespace hexad::train
