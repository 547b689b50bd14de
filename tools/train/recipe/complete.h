// Completes a recipe from its datasets and from the machine before it runs.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Throws Error(data) for a dataset that is not there, saying where it was looked for: relative paths are relative to
/// the working directory. `recipe_path`: beside it, too, people put them.
void require_datasets(const Recipe& recipe, const std::string& recipe_path);

/// Fills what the recipe leaves to other keys, the data and the machine: heads and widths, the vocabulary, and a thread
/// for each of this rank's `cores`.
void complete(Recipe& recipe, int64_t cores);

}  // namespace hexad::train
