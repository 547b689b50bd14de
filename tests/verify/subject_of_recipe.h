// Subjects of small recipes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/subject.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;

inline const layers::Registry registry;

/// Returns the recipe with the settings of complete() on one core.
inline Recipe completed(Recipe recipe) {
  complete(recipe, 1);
  return recipe;
}

/// Returns the first layout of the list `text` for `world` ranks.
inline Variant layout(const char* text, int world) { return parse_layouts(text, world)[0]; }

/// Test that makes subjects of small_recipe().
class SubjectTest : public testing::Test {
 protected:
  Subject subject(const std::vector<std::string>& overrides = {}, int steps = 2) const {
    return Subject(completed(small_recipe(overrides)), registry, steps, scratch.path());
  }
  const Scratch scratch;
};

}  // namespace hexad::tests
