// Checks the names of registered parts in a recipe: layers, routers, optimizers and data sources.
#pragma once

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Adds a problem for each name that is not registered, with the registered names, and for each option that its part
/// does not read or support. Uses only the declarations of the parts; constructs no part.
void check_names(const Recipe& r, const Extensions& extensions, config::Problems& problems);

}  // namespace hexad::train
