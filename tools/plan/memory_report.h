// The estimates of a step for people.
#pragma once

#include <map>
#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Of memory, by what it is for, of the rank that needs the most, with experts loaded evenly, at p99 and at worst; then
/// a line a stage, of many the first ones, the last one and the one that needs the most. Then what the rank that sends
/// the most sends in a step, by class of traffic.
std::string step_table(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world);

/// Why the recipe does not keep within memory.limit_bytes: how much is missing, on which stage, and what of the
/// recipe would help; empty where it does, or has no limit.
std::string memory_problem(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world);

/// "weights 1.20 GiB (1.10 GiB), ...": what the neediest rank is estimated to need of each, and in brackets what was
/// `measured`, by category of the allocator, with "total": the most at the same time.
std::string memory_comparison(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                              const std::map<std::string, int64_t>& measured);

}  // namespace hexad::plan
