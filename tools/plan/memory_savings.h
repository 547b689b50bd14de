// Changes of a recipe that save memory.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// A change of a recipe that saves memory and trains the same model.
struct MemorySaving {
  std::string text;  // such as "recompute: block"
  std::function<void(train::Recipe&)> make;
};

/// Returns the savings that the recipe does not use yet and that can have an effect, the cheapest first.
std::vector<MemorySaving> memory_savings(const train::Recipe& recipe, int64_t world);

/// Returns a text with the savings that reduce the memory from `need` to at most `limit` bytes, each with the resulting
/// memory. The text names the most effective saving if no saving is sufficient. The text is empty if no saving helps.
/// `needed` returns the memory of a changed recipe.
///
/// Stops before an estimate that might end later than `patience` seconds after the start. The next estimate is assumed
/// to take four times as long as the slowest estimate so far. For the largest models, each estimate takes seconds.
std::string savings_text(const train::Recipe& recipe, int64_t world, double limit, double need,
                         const std::function<double(const train::Recipe&)>& needed,
                         double patience = std::numeric_limits<double>::infinity());

}  // namespace hexad::plan
