// The memory estimate for people.
#pragma once

#include <map>
#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// By what it is for, of the rank that needs the most; then a line a stage, of many the first ones, the last one and
/// the one that needs the most.
std::string memory_table(const train::Recipe& recipe, const layers::Registry& registry, int64_t world);

/// Why the recipe does not keep within memory.limit_bytes: how much is missing, on which stage, and what of the
/// recipe would help; empty where it does, or has no limit.
std::string memory_problem(const train::Recipe& recipe, const layers::Registry& registry, int64_t world);

/// "weights 1.20 GiB (1.10 GiB), ...": what the neediest rank is estimated to need of each, and in brackets what was
/// `measured`, by category of the allocator, with "total": the most at the same time.
std::string memory_comparison(const train::Recipe& recipe, int64_t world,
                              const std::map<std::string, int64_t>& measured);

}  // namespace hexad::plan
