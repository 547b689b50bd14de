// Values of schedule.moe.memory_reuse: auto that keep a rank below memory.limit_bytes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Schedules from which a run may choose:
/// - The list has all schedules, regardless of their memory, if the recipe defines memory_reuse.
/// - The list has all schedules with memory_reuse: none if the recipe has no memory limit.
/// - Otherwise, the list has schedules that fit: a rank stays within memory.limit_bytes under any routing. The list has
///   the schedules that need the least memory if no schedule fits.
///
/// Rules for fitting schedules:
/// - A schedule with memory_reuse: none must fit even if all tokens choose experts of one rank. The reason is that the
///   kept memory grows with the number of received rows.
/// - With s1 to s4, a pass is divided at run time into chunks that need at most the schedule's memory_limit. This limit
///   is 8/9 of the bytes of memory.limit_bytes that no other memory needs, if the recipe does not define memory_limit.
///   The last ninth is for rounding.
/// - Schedules with s1 to s4 are omitted if a schedule with memory_reuse: none fits, because s1 to s4 take more time.
struct WithinMemory {
  std::vector<moe::MoeSchedule> schedules{};
  // Least memory needs, in bytes with rounded-up blocks, if memory_reuse is open. `kept` is the least need of the
  // schedules with memory_reuse: none, and `least` is the least need of all schedules. `smallest` is the schedule with
  // the least need.
  double kept = 0, least = 0;
  moe::MoeSchedule smallest{};
};

/// Memory needs of the schedules of a recipe. The need of each schedule is estimated once.
class MemoryNeeds {
 public:
  /// Makes an estimator. `recipe` and `extensions` must outlive the object.
  MemoryNeeds(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world)
      : recipe_(recipe), extensions_(extensions), world_(world) {}

  /// Returns the bytes, with rounded-up blocks, of the rank that needs the most under any routing. For schedules with
  /// s1 to s4 and without memory_limit, assumes the smallest possible buffers.
  double of(const moe::MoeSchedule& schedule);

  /// Returns the subset of `schedules` from which a run may choose, each with its memory_limit.
  WithinMemory within(const std::vector<moe::MoeSchedule>& schedules);

 private:
  const train::Recipe& recipe_;
  const train::Extensions& extensions_;
  const int64_t world_;
  // Memory needs in bytes, by the settings on which they depend. The last setting is the number of chunks.
  std::map<std::tuple<moe::ReuseStrategy, moe::Duplicates, ep::EspExchange, int64_t>, double> known_;
};

/// Returns the schedule with memory_reuse: none and without memory_limit.
moe::MoeSchedule keeping_schedule(moe::MoeSchedule schedule);

/// Returns the recipe with the values of `schedule` for all choices of schedule.moe, open or not, and with
/// redecide_every 0.
train::Recipe with_schedule(const train::Recipe& recipe, const moe::MoeSchedule& schedule);

}  // namespace hexad::plan
