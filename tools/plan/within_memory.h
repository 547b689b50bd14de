// What an open schedule.moe.memory_reuse may be, so that a rank keeps below memory.limit_bytes.
#pragma once

#include <vector>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Of schedules, which differ in what they restore, those that a rank may run within memory.limit_bytes, whatever
/// experts tokens choose; of a recipe without a limit all that keep.
///
/// Keeping is within the limit where it is even when all tokens choose experts of one rank, because what is kept then
/// grows with the rows that come. A pass that restores is cut as it runs into chunks that need no more than its
/// schedule's memory_limit, which is set here to what the rest leaves of the limit (or is the recipe's). Where any that
/// keeps is within the limit those that restore are left out, as restoring takes time; where nothing is, those that
/// need the least remain.
struct WithinMemory {
  std::vector<moe::MoeSchedule> schedules{};
  double kept = 0, least = 0;  // bytes, as blocks: the least where all is kept, and the least of all
};
WithinMemory within_memory(const train::Recipe& recipe, int64_t world, const std::vector<moe::MoeSchedule>& schedules);

/// The recipe with this schedule in the place of what it leaves open.
train::Recipe with_schedule(const train::Recipe& recipe, const moe::MoeSchedule& schedule);

}  // namespace hexad::plan
