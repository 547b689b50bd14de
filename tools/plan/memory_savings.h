// Changes of a recipe that save memory.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// A change that leaves the meaning of a run as it is.
struct MemorySaving {
  std::string text;  // "recompute: block"
  std::function<void(train::Recipe&)> make;
};

/// Savings that the recipe does not make yet, the cheapest first.
std::vector<MemorySaving> memory_savings(const train::Recipe& recipe, int64_t world);

/// Names the savings with which `needed` falls to `limit`, bytes, each with what it needs then, or else the largest
/// help; empty if none helps. `need`: without them. No saving is estimated that may end after `patience` seconds,
/// judged by four times the slowest one before: for the largest models each takes some.
std::string savings_text(const train::Recipe& recipe, int64_t world, double limit, double need,
                         const std::function<double(const train::Recipe&)>& needed,
                         double patience = std::numeric_limits<double>::infinity());

}  // namespace hexad::plan
