// Completes a recipe from its datasets and the machine before the recipe runs.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Throws Error(data) if a dataset does not exist, with the folder in which it was searched. Relative paths are
/// relative to the working directory. A common mistake is to write them relative to the recipe. If such a dataset
/// exists beside `recipe_path`, the message names that dataset.
void require_datasets(const Recipe& recipe, const std::string& recipe_path);

/// Fills in the settings that follow from other keys, the data and the machine: heads and widths, the vocabulary, and
/// one thread for each of this rank's `cores`.
void complete(Recipe& recipe, int64_t cores);

}  // namespace hexad::train
