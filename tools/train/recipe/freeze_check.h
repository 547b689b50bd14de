// Checks optim.freeze and optim.muon_except against the names of the model's parameters.
#pragma once

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds a problem for each pattern of optim.freeze and optim.muon_except that matches no parameter, with the nearest
/// names. Also adds a problem if all parameters are frozen. Does nothing if the recipe already has problems, because
/// its model may be illegal.
void check_freeze(const Recipe& recipe, const Extensions& extensions, config::Problems& problems);

}  // namespace hexad::train
