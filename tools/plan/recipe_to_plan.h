// Reading of a recipe whose layout a plan replaces.
#pragma once

#include <string>

#include "framework/config/document.h"
#include "framework/config/recipe_error.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

struct RecipeToPlan {
  config::Document document;
  train::Recipe recipe;
  /// Problem of the recipe's own layout, whose keys are then removed from `document` and `recipe`. Empty if the layout
  /// is legal for some number of ranks.
  std::string ignored;
};

/// Reads a recipe for any number of ranks. Removes the keys of the layout if the recipe is legal only without them,
/// because a plan sets these keys. The keys of the layout are the keys of the section parallel, batch.micro, and the
/// keys `kind`, `virtual_stages` and `split` of schedule.pipeline. Throws Error(usage) with every problem of the recipe
/// if the recipe is illegal without these keys, too. Also throws this error if a key is unknown or has an illegal
/// value.
RecipeToPlan load_to_plan(config::Document document, const train::Extensions& extensions);

/// Returns the first problem of `error`, with file and line.
std::string first_problem(const config::RecipeError& error);

}  // namespace hexad::plan
