#include "tools/plan/layout_walk.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/plan/within_memory.h"

namespace hexad::plan {

using train::Recipe;

namespace {

struct WalkKey {
  std::string_view path;
  void (*copy)(Recipe& to, const Recipe& from);
  std::string_view owner = {};  // key whose value decides whether this key has an effect; empty: none
};

// Keys in the order in which a walk changes them.
constexpr auto keys = std::to_array<WalkKey>({
    {"parallel.tp", [](Recipe& a, const Recipe& b) { a.parallel.tp = b.parallel.tp; }},
    {"parallel.sp", [](Recipe& a, const Recipe& b) { a.parallel.sp = b.parallel.sp; }, "parallel.tp"},
    {"parallel.cp", [](Recipe& a, const Recipe& b) { a.parallel.cp = b.parallel.cp; }},
    {"parallel.cp_kind", [](Recipe& a, const Recipe& b) { a.parallel.cp_kind = b.parallel.cp_kind; }, "parallel.cp"},
    {"parallel.ep", [](Recipe& a, const Recipe& b) { a.parallel.ep = b.parallel.ep; }},
    {"parallel.etp", [](Recipe& a, const Recipe& b) { a.parallel.etp = b.parallel.etp; }},
    {"parallel.cp_expansion", [](Recipe& a, const Recipe& b) { a.parallel.cp_expansion = b.parallel.cp_expansion; }},
    {"parallel.pp", [](Recipe& a, const Recipe& b) { a.parallel.pp = b.parallel.pp; }},
    {"schedule.pipeline.kind",
     [](Recipe& a, const Recipe& b) { a.schedule.pipeline.kind = b.schedule.pipeline.kind; }, "parallel.pp"},
    {"schedule.pipeline.virtual_stages",
     [](Recipe& a, const Recipe& b) { a.schedule.pipeline.virtual_stages = b.schedule.pipeline.virtual_stages; },
     "schedule.pipeline.kind"},
    {"schedule.pipeline.split",
     [](Recipe& a, const Recipe& b) { a.schedule.pipeline.split = b.schedule.pipeline.split; }},
    {"schedule.pipeline.overlap",
     [](Recipe& a, const Recipe& b) { a.schedule.pipeline.overlap = b.schedule.pipeline.overlap; }},
    {"parallel.zero", [](Recipe& a, const Recipe& b) { a.parallel.zero = b.parallel.zero; }},
    {"recompute", [](Recipe& a, const Recipe& b) { a.recompute = b.recompute; }},
    {"offload.activations", [](Recipe& a, const Recipe& b) { a.offload.activations = b.offload.activations; }},
    {"offload.optimizer", [](Recipe& a, const Recipe& b) { a.offload.optimizer = b.offload.optimizer; }},
    {"batch.micro", [](Recipe& a, const Recipe& b) { a.batch.micro = b.batch.micro; }},
    {"schedule.moe.duplicates",
     [](Recipe& a, const Recipe& b) { a.schedule.moe.duplicates = b.schedule.moe.duplicates; }},
    {"schedule.moe.chunk_by", [](Recipe& a, const Recipe& b) { a.schedule.moe.chunk_by = b.schedule.moe.chunk_by; }},
    {"schedule.moe.overlap", [](Recipe& a, const Recipe& b) { a.schedule.moe.overlap = b.schedule.moe.overlap; }},
    {"schedule.moe.chunks", [](Recipe& a, const Recipe& b) { a.schedule.moe.chunks = b.schedule.moe.chunks; }},
    {"schedule.moe.esp_exchange",
     [](Recipe& a, const Recipe& b) { a.schedule.moe.esp_exchange = b.schedule.moe.esp_exchange; }},
    {"schedule.moe.rows", [](Recipe& a, const Recipe& b) { a.schedule.moe.rows = b.schedule.moe.rows; }},
    {"schedule.moe.memory_reuse",
     [](Recipe& a, const Recipe& b) {
       a.schedule.moe.memory_reuse = b.schedule.moe.memory_reuse;
       a.schedule.moe.memory_limit = b.schedule.moe.memory_limit;
     }},
    {"schedule.moe.order", [](Recipe& a, const Recipe& b) { a.schedule.moe.order = b.schedule.moe.order; }},
    {"distributed.bucket_bytes",
     [](Recipe& a, const Recipe& b) { a.distributed.bucket_bytes = b.distributed.bucket_bytes; }},
    {"parallel.order", [](Recipe& a, const Recipe& b) { a.parallel.order = b.parallel.order; }},
});

using Values = std::map<std::string, std::string, std::less<>>;

Values values_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  return {settings.begin(), settings.end()};
}

// Returns the recipe with the values of open choices that apply before the program chooses.
Recipe settled(const Recipe& recipe) { return with_schedule(recipe, recipe.schedule.moe.settled()); }

// Copies the value of `key`. Also copies the keys whose owner is `key`, if they have no effect in the first layout of
// the walk. Adds all copied keys to `copied`. `effective` are the effective settings of that first layout.
void copy(const WalkKey& key, Recipe& to, const Recipe& from, const Values& effective,
          std::vector<std::string_view>& copied) {
  key.copy(to, from);
  copied.push_back(key.path);
  for (const WalkKey& owned : keys)
    if (owned.owner == key.path && !effective.contains(owned.path)) copy(owned, to, from, effective, copied);
}

int64_t data_parallel_ranks(const Recipe& r, int64_t world) {
  return world / (r.parallel.tp * r.parallel.cp * r.parallel.pp);
}

// Returns the effective settings that differ between two legal layouts. The settings of the keys `first` are listed
// first, then the other settings in the order of a walk, then "dp".
std::vector<ChangedSetting> changes(const Recipe& from, const Recipe& to, int64_t world,
                                    const std::vector<std::string_view>& first) {
  std::vector<ChangedSetting> changed = changed_settings({from}, {to}, world);
  std::ranges::stable_sort(changed, {}, [&](const ChangedSetting& c) {
    const std::string_view path = c.key;
    return std::pair(std::ranges::find(first, path) == first.end(),
                     std::ranges::find(keys, path, &WalkKey::path) - keys.begin());
  });
  if (const int64_t a = data_parallel_ranks(from, world), b = data_parallel_ranks(to, world); a != b)
    changed.push_back({.key = "dp", .from = std::to_string(a), .to = std::to_string(b)});
  return changed;
}

}  // namespace

std::string WalkStep::changes_text() const {
  std::string text;
  for (size_t i = 0; i < changed.size(); ++i)
    text += fmt::format("{}{}: {} -> {}",
                        i == 0   ? ""
                        : i == 1 ? ", together with "
                                 : ", ",
                        changed[i].key, changed[i].from, changed[i].to);
  return text;
}

std::vector<std::string_view> walk_order() {
  std::vector<std::string_view> order;
  for (const WalkKey& key : keys) order.push_back(key.path);
  return order;
}

std::vector<WalkStep> walk_layouts(const PricedLayout& from, const PricedLayout& to, const WalkSite& site) {
  const Recipe end = settled(to.candidate.recipe);
  Recipe before = settled(from.candidate.recipe), now = before;
  const Values begin_values = values_of(PlanCandidate{now}.settings()),
               end_values = values_of(PlanCandidate{end}.settings()),
               effective = values_of(PlanCandidate{now}.effective_settings(site.world));
  const auto is_changed = [&](const WalkKey& key) {
    const auto a = begin_values.find(key.path), b = end_values.find(key.path);
    return a != begin_values.end() && b != end_values.end() && a->second != b->second;
  };
  std::vector<WalkStep> walk{{.layout = from, .changed = {}}};
  std::vector<std::string_view> changed_keys;  // keys copied since the layout `before`
  for (const WalkKey& key : keys) {
    if (!is_changed(key)) continue;
    copy(key, now, end, effective, changed_keys);
    if (!site.is_legal(now)) continue;
    if (changed_settings({now}, {end}, site.world).empty()) break;
    std::vector<ChangedSetting> changed = changes(before, now, site.world, changed_keys);
    if (!changed.empty()) {
      const std::optional<LayoutPrice> price = site.price(now);
      if (!price) continue;
      walk.push_back({.layout = {.candidate = {now}, .price = *price}, .changed = std::move(changed)});
    }
    before = now;
    changed_keys.clear();
  }
  if (std::vector<ChangedSetting> last = changes(before, end, site.world, changed_keys); !last.empty())
    walk.push_back({.layout = to, .changed = std::move(last)});
  return walk;
}

}  // namespace hexad::plan
