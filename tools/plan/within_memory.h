// Values of an open schedule.moe.memory_reuse that keep a rank below memory.limit_bytes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Schedules that differ in memory_reuse, of which a rank may run any within memory.limit_bytes whatever experts tokens
/// choose. Of a recipe without a limit all with memory_reuse: none; of one that gives memory_reuse all.
///
///   - none fits if it does even when all tokens choose experts of one rank: what is kept grows with the rows that
///   come.
///   - s1 to s4 cut a pass, as it runs, into chunks that need no more than the schedule's memory_limit. That is set
///     here to what everything else leaves of the limit, unless the recipe gives it.
///   - If any with none fits, s1 to s4 are left out, as they take time. If nothing fits, those that need the least
///     remain.
struct WithinMemory {
  std::vector<moe::MoeSchedule> schedules{};
  // For a memory_reuse that is left open, bytes, as blocks: the least of schedules with none, and the least of all,
  // with the schedule that needs it.
  double kept = 0, least = 0;
  moe::MoeSchedule smallest{};
};

/// Memory that the schedules of a recipe need; each is estimated once.
class MemoryNeeds {
 public:
  /// `recipe` and `extensions` outlive it.
  MemoryNeeds(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world)
      : recipe_(recipe), extensions_(extensions), world_(world) {}

  /// Bytes, as blocks, of the rank that needs the most, whatever tokens choose: of a schedule that restores with its
  /// buffers at their smallest.
  double of(const moe::MoeSchedule& schedule);

  WithinMemory within(const std::vector<moe::MoeSchedule>& schedules);

 private:
  const train::Recipe& recipe_;
  const train::Extensions& extensions_;
  const int64_t world_;
  // Estimates, by the settings that they depend on; the last one is the number of chunks.
  std::map<std::tuple<moe::ReuseStrategy, moe::Duplicates, ep::EspExchange, int64_t>, double> known_;
};

/// The schedule with memory_reuse: none.
moe::MoeSchedule keeping_schedule(moe::MoeSchedule schedule);

/// The recipe with this schedule in the place of what it leaves open.
train::Recipe with_schedule(const train::Recipe& recipe, const moe::MoeSchedule& schedule);

}  // namespace hexad::plan
