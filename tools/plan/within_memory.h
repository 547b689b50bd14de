// What an open schedule.moe.memory_reuse may be, so that a rank keeps below memory.limit_bytes.
#pragma once

#include <vector>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Those of `schedules`, which differ in memory_reuse, that a rank may run within memory.limit_bytes whatever experts
/// tokens choose. Of a recipe without a limit all with memory_reuse: none.
///
///   - none fits if it does even when all tokens choose experts of one rank: what is kept grows with the rows that
///   come.
///   - s1 to s4 cut a pass, as it runs, into chunks that need no more than the schedule's memory_limit. That is set
///     here to what everything else leaves of the limit, unless the recipe gives it.
///   - If any with none fits, s1 to s4 are left out, as they take time. If nothing fits, those that need the least
///     remain.
struct WithinMemory {
  std::vector<moe::MoeSchedule> schedules{};
  double kept = 0, least = 0;  // bytes, as blocks: the least of those with none, and the least of all
};
WithinMemory within_memory(const train::Recipe& recipe, int64_t world, const std::vector<moe::MoeSchedule>& schedules,
                           const train::Extensions& extensions = {});

/// The recipe with this schedule in the place of what it leaves open.
train::Recipe with_schedule(const train::Recipe& recipe, const moe::MoeSchedule& schedule);

}  // namespace hexad::plan
