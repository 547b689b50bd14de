#include "tools/plan/within_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "tools/plan/memory_estimate.h"
#include "tools/train/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using moe::MoeSchedule;
using moe::ReuseStrategy;

constexpr auto unlimited = std::numeric_limits<double>::infinity();
// Of what is free: blocks of buffers are rounded up by an eighth at most.
constexpr double usable = 8.0 / 9.0;

bool keeps(const MoeSchedule& s) { return s.memory_reuse == ReuseStrategy::none; }

class Needs {
 public:
  Needs(const Recipe& recipe, int64_t world, const train::Extensions& extensions)
      : recipe_(recipe), world_(world), extensions_(extensions) {}

  /// Bytes, whatever tokens choose: of a schedule that restores with its buffers at their smallest.
  double of(const MoeSchedule& s) {
    const auto [entry, added] = known_.try_emplace(
        {s.memory_reuse, s.duplicates, s.esp_exchange_used(), keeps(s) && s.is_chunked() ? s.chunks : 1});
    if (!added) return entry->second;
    MoeSchedule smallest = s;
    if (!keeps(s) && !smallest.memory_limit) smallest.memory_limit = 1;
    const Recipe r = with_schedule(recipe_, smallest);
    for (const MemoryEstimate& m : estimate_stages(r, world_, RoutingLoad::one_rank, extensions_))
      entry->second = std::max(entry->second, m.blocks);
    return entry->second;
  }

 private:
  const Recipe& recipe_;
  const int64_t world_;
  const train::Extensions& extensions_;
  std::map<std::tuple<ReuseStrategy, moe::Duplicates, ep::EspExchange, int64_t>, double>
      known_;  // by what the estimate depends on
};

// Its buffers may have what the rest leaves. Returns whether that is enough.
bool limit_buffers(const Recipe& r, MoeSchedule& s, double left) {
  if (r.schedule.moe.memory_limit || left == unlimited) return left >= 0;
  const int64_t least = least_memory_limit(r, s.memory_reuse);
  const double spare = std::floor(std::max(left, 0.0) * usable);
  s.memory_limit = std::max(least, static_cast<int64_t>(spare));
  if (contradictions(r, s).empty()) return left >= 0 && static_cast<double>(least) <= spare;
  s.memory_limit.reset();
  return false;
}

}  // namespace

Recipe with_schedule(const Recipe& recipe, const MoeSchedule& s) {
  Recipe r = recipe;
  r.schedule.moe.choose(s);
  return r;
}

WithinMemory within_memory(const Recipe& recipe, int64_t world, const std::vector<MoeSchedule>& schedules,
                           const train::Extensions& extensions) {
  Needs needs(recipe, world, extensions);
  const double limit = recipe.memory.limit_bytes == 0 ? unlimited : static_cast<double>(recipe.memory.limit_bytes);
  WithinMemory out{.kept = unlimited, .least = unlimited};
  std::vector<MoeSchedule> keeping, restoring, rest;
  for (MoeSchedule s : schedules) {
    const double need = needs.of(s);
    out.least = std::min(out.least, need);
    if (keeps(s)) {
      out.kept = std::min(out.kept, need);
      (need <= limit ? keeping : rest).push_back(s);
      continue;
    }
    const bool fits = limit_buffers(recipe, s, limit - need);
    (fits ? restoring : rest).push_back(s);
  }
  if (out.kept == unlimited) {
    MoeSchedule kept = recipe.schedule.moe.settled();
    kept.memory_reuse = ReuseStrategy::none, kept.memory_limit.reset();
    out.kept = needs.of(kept);
  }
  if (!keeping.empty())
    out.schedules = std::move(keeping);
  else if (!restoring.empty())
    out.schedules = std::move(restoring);
  else
    std::ranges::copy_if(rest, std::back_inserter(out.schedules),
                         [&](const MoeSchedule& s) { return needs.of(s) <= out.least; });
  return out;
}

}  // namespace hexad::plan
