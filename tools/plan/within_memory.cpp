#include "tools/plan/within_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tools/plan/memory_estimate.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using moe::MoeSchedule;
using moe::ReuseStrategy;

constexpr auto no_limit = std::numeric_limits<double>::infinity();
// Share of the free memory that buffers may use. Rounding up the buffers' blocks adds at most an eighth of their size.
constexpr double usable = 8.0 / 9.0;

bool keeps(const MoeSchedule& s) { return s.memory_reuse == ReuseStrategy::none; }

// Sets the schedule's memory_limit to the usable part of `left` bytes if the recipe does not set memory_limit and
// `left` is finite. Returns true if the schedule fits.
bool limit_buffers(const Recipe& r, MoeSchedule& s, double left) {
  if (r.schedule.moe.memory_limit || left == no_limit) return left >= 0;
  const int64_t least = least_memory_limit(r, s.memory_reuse);
  const double spare = std::floor(std::max(left, 0.0) * usable);
  s.memory_limit = std::max(least, static_cast<int64_t>(spare));
  if (contradictions(r, s).empty()) return left >= 0 && static_cast<double>(least) <= spare;
  s.memory_limit.reset();
  return false;
}

}  // namespace

MoeSchedule keeping_schedule(MoeSchedule s) {
  s.memory_reuse = ReuseStrategy::none;
  s.memory_limit.reset();
  return s;
}

Recipe with_schedule(const Recipe& recipe, const MoeSchedule& s) {
  Recipe r = recipe;
  r.schedule.moe.choose(s);
  return r;
}

double MemoryNeeds::of(const MoeSchedule& s) {
  const auto [entry, added] = known_.try_emplace(
      {s.memory_reuse, s.duplicates, s.esp_exchange_used(), keeps(s) && s.is_chunked() ? s.chunks : 1});
  if (!added) return entry->second;
  MoeSchedule smallest = s;
  if (!keeps(s) && !smallest.memory_limit) smallest.memory_limit = 1;
  const Recipe r = with_schedule(recipe_, smallest);
  for (const MemoryEstimate& m : estimate_stages(r, extensions_, world_, RoutingLoad::one_rank))
    entry->second = std::max(entry->second, m.blocks);
  return entry->second;
}

WithinMemory MemoryNeeds::within(const std::vector<MoeSchedule>& schedules) {
  if (recipe_.schedule.moe.memory_reuse) return {.schedules = schedules};
  const double limit = recipe_.memory.limit() == 0 ? no_limit : static_cast<double>(recipe_.memory.limit());
  WithinMemory out{.kept = no_limit, .least = no_limit};
  std::vector<MoeSchedule> keeping, restoring, rest;
  for (MoeSchedule s : schedules) {
    const double need = of(s);
    if (need < out.least) out.least = need, out.smallest = s;
    if (keeps(s)) {
      out.kept = std::min(out.kept, need);
      (need <= limit ? keeping : rest).push_back(s);
      continue;
    }
    const bool fits = limit_buffers(recipe_, s, limit - need);
    (fits ? restoring : rest).push_back(s);
  }
  if (out.kept == no_limit) out.kept = of(keeping_schedule(recipe_.schedule.moe.settled()));
  if (!keeping.empty())
    out.schedules = std::move(keeping);
  else if (!restoring.empty())
    out.schedules = std::move(restoring);
  else
    std::ranges::copy_if(rest, std::back_inserter(out.schedules),
                         [&](const MoeSchedule& s) { return of(s) <= out.least; });
  return out;
}

}  // namespace hexad::plan
