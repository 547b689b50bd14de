#include "tools/plan/layout_changes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string>

#include "tools/plan/within_memory.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {
namespace {

using base::Axis;
using moe::MoeSchedule;
using train::Recipe;

// Returns copies of the recipe with other schedules: all other values of the choices that `open` resets to auto.
// Schedules that overlap have the recipe's number of chunks if the recipe has chunks of the same kind, and two chunks
// otherwise.
std::vector<Recipe> other_schedules(const Recipe& r, const PlanSite& site, void (*open)(moe::MoeScheduleConfig&)) {
  if (r.model.moe.experts == 0) return {};
  const MoeSchedule now = r.schedule.moe.settled();
  Recipe opened = with_schedule(r, now);
  open(opened.schedule.moe);
  std::vector<Recipe> all;
  for (MoeSchedule s : train::legal_schedules(opened, site.extensions)) {
    s.chunks = !s.overlaps() ? 1 : now.overlaps() && s.chunk_by == now.chunk_by ? now.chunks : 2;
    // legal_schedules() also varies an unset esp_exchange. In this file, only other_exchange() changes esp_exchange.
    if (s != now && s.esp_exchange == now.esp_exchange) all.push_back(with_schedule(r, s));
  }
  return all;
}

std::vector<Recipe> other_offload(const Recipe& r, const PlanSite& site) {
  const bool saves = site.request.objective == Objective::memory;
  std::vector<Recipe> all(2, r);
  all[0].offload.optimizer = saves ? optim::StateOffload::file : optim::StateOffload::none;
  all[1].offload.activations = saves;
  return all;
}

std::vector<Recipe> other_memory_reuse(const Recipe& r, const PlanSite& site) {
  std::vector<Recipe> all = other_schedules(r, site, [](auto& c) { c.memory_reuse.reset(); });
  if (site.request.objective != Objective::memory)
    std::erase_if(all, [](const Recipe& c) { return c.schedule.moe.memory_reuse != moe::ReuseStrategy::none; });
  return all;
}

std::vector<Recipe> other_micro_batch_overlap(const Recipe& r, const PlanSite&) {
  Recipe c = with_schedule(r, r.schedule.moe.settled());
  pp::Overlap& overlap = c.schedule.pipeline.overlap;
  overlap = overlap == pp::Overlap::none ? pp::Overlap::micro_batches : pp::Overlap::none;
  return {c};
}

std::vector<Recipe> other_pipelines(const Recipe& r, const PlanSite&) {
  if (r.parallel.pp == 1) return {};
  using pp::PipelineKind;
  struct Pipeline {
    PipelineKind kind;
    int64_t virtual_stages = 2;
  };
  static constexpr std::array<Pipeline, 6> all_pipelines{{{PipelineKind::zb_v},
                                                          {PipelineKind::dualpipe_v},
                                                          {PipelineKind::interleaved, 4},
                                                          {PipelineKind::interleaved},
                                                          {PipelineKind::zb_h1},
                                                          {PipelineKind::one_f_one_b}}};
  std::vector<Recipe> all;
  for (const auto& [kind, virtual_stages] : all_pipelines) {
    const pp::PipelineConfig& now = r.schedule.pipeline;
    if (kind == now.kind && (kind != PipelineKind::interleaved || virtual_stages == now.virtual_stages)) continue;
    pp::PipelineConfig& changed = all.emplace_back(r).schedule.pipeline;
    changed.kind = kind, changed.virtual_stages = virtual_stages;
  }
  return all;
}

std::vector<Recipe> other_context_kinds(const Recipe& r, const PlanSite&) {
  if (r.parallel.cp == 1) return {};
  std::vector<Recipe> all;
  for (const auto& [kind, name] : enum_names(cp::ContextKind{}))
    if (kind != r.parallel.cp_kind) all.emplace_back(r).parallel.cp_kind = kind;
  return all;
}

std::vector<Recipe> other_chunk_by(const Recipe& r, const PlanSite& site) {
  return other_schedules(r, site, [](auto& c) { c.chunk_by.reset(), c.chunks.reset(); });
}

std::vector<Recipe> other_overlap(const Recipe& r, const PlanSite& site) {
  return other_schedules(r, site, [](auto& c) { c.overlap.reset(), c.chunks.reset(); });
}

// Returns the next larger and smaller numbers of chunks: twice and half of `s.chunks`, or the next divisors of a rank's
// experts.
std::vector<int64_t> chunks_beside(const Recipe& r, const PlanSite& site, const MoeSchedule& s) {
  std::vector<int64_t> beside;
  if (s.chunk_by != moe::ChunkBy::experts) {
    for (const int64_t chunks : {2 * s.chunks, s.chunks / 2})
      if (chunks >= 2 && chunks <= *std::rbegin(moe::chunks_tried)) beside.push_back(chunks);
    return beside;
  }
  const std::vector<int64_t> all = train::legal_chunks(r, site.extensions, s);
  if (const auto more = std::ranges::upper_bound(all, s.chunks); more != all.end()) beside.push_back(*more);
  if (const auto same = std::ranges::lower_bound(all, s.chunks); same != all.begin())
    beside.push_back(*std::prev(same));
  return beside;
}

std::vector<Recipe> other_chunks(const Recipe& r, const PlanSite& site) {
  MoeSchedule s = r.schedule.moe.settled();
  if (r.model.moe.experts == 0 || !s.overlaps()) return {};
  std::vector<Recipe> all;
  for (const int64_t chunks : chunks_beside(r, site, s)) {
    s.chunks = chunks;
    all.push_back(with_schedule(r, s));
  }
  return all;
}

std::vector<Recipe> other_rows(const Recipe& r, const PlanSite& site) {
  return other_schedules(r, site, [](auto& c) { c.rows.reset(); });
}

std::vector<Recipe> other_duplicates(const Recipe& r, const PlanSite& site) {
  return other_schedules(r, site, [](auto& c) { c.duplicates.reset(); });
}

std::vector<Recipe> other_exchange(const Recipe& r, const PlanSite&) {
  if (r.model.moe.experts == 0 || r.parallel.etp.value_or(r.parallel.tp) == 1) return {};
  MoeSchedule s = r.schedule.moe.settled();
  s.esp_exchange = s.esp_exchange ? std::nullopt : std::optional(ep::EspExchange::direct);
  return {with_schedule(r, s)};
}

std::vector<Recipe> other_chunk_order(const Recipe& r, const PlanSite& site) {
  return other_schedules(r, site, [](auto& c) { c.order.reset(); });
}

// Returns copies of the recipe with buckets of four times and of a quarter of the size. Omits sizes below 1 MiB or
// above 2 GiB. Returns no copies if the dense gradients are not reduced over several ranks.
std::vector<Recipe> other_buckets(const Recipe& r, const PlanSite& site) {
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(site.request.world));
  const int ranks = std::ssize(layout.reducers({}, 0));
  if (ranks == 1) return {};
  constexpr int64_t least = 1 << 20, most = int64_t{1} << 31;
  const int64_t now = train::unit_bytes(r, ranks);
  std::vector<Recipe> all;
  for (const int64_t bytes : {4 * now, now / 4}) {
    if (bytes < least || bytes > most) continue;
    all.emplace_back(r).distributed.bucket_bytes = bytes;
  }
  return all;
}

// Returns three numbers for each kind of group of rank 0:
// - the number of nodes of the group
// - the number of ranks of the group outside rank 0's domain of the fast link
// - the number of nodes from the group's first to its last node
std::vector<int64_t> spread_of(const mesh::Layout& layout, const StepPrices& prices) {
  std::vector<int64_t> spread;
  const auto add = [&](const std::vector<int>& ranks) {
    const GroupPlace at = prices.place_of(ranks, 0);
    spread.insert(spread.end(), {at.nodes, at.ranks - at.ranks_in_domain, at.node_span});
  };
  for (int axis = 0; axis < mesh::axis_count; ++axis) add(layout.members(static_cast<Axis>(axis), 0));
  add(layout.token_sharers(0));
  add(layout.expert_sharers(0));
  add(layout.reducers({}, 0));
  return spread;
}

// True if no kind of group is spread more widely in `a` than in `b`.
bool no_wider(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::ranges::equal(a, b, std::less_equal{});
}

std::vector<Recipe> other_axis_orders(const Recipe& r, const PlanSite& site) {
  if (!site.request.orders || site.request.objective == Objective::memory) return {};
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(site.request.world));
  const std::vector<int64_t> now = spread_of(layout, site.prices);
  std::vector<Axis> axes, of_one_rank;
  for (const Axis axis : mesh::AxisOrder::usual) {
    const Axis of_experts = axis == Axis::tp ? Axis::etp : axis == Axis::dp ? Axis::edp : axis;
    (layout.size(axis) * layout.size(of_experts) > 1 ? axes : of_one_rank).push_back(axis);
  }
  struct Found {
    Recipe recipe;
    std::vector<int64_t> spread;
  };
  std::vector<Found> found;
  std::ranges::sort(axes);
  do {
    std::string order;
    for (const std::vector<Axis>* some : {&axes, &of_one_rank})
      for (const Axis axis : *some) order += base::cat(order.empty() ? "" : "-", mesh::name_of(axis));
    Recipe c = r;
    c.parallel.order = order;
    c.parallel.cp_expansion = mesh::Expansion::automatic;
    if (site.rules.broken(c)) continue;
    std::vector<int64_t> spread = spread_of({c.parallel.sizes(), layout.world()}, site.prices);
    const auto is_no_wider = [&](const Found& f) { return no_wider(f.spread, spread); };
    if (no_wider(now, spread) || std::ranges::any_of(found, is_no_wider)) continue;
    std::erase_if(found, [&](const Found& f) { return no_wider(spread, f.spread); });
    found.push_back({std::move(c), std::move(spread)});
  } while (std::ranges::next_permutation(axes).found);
  std::vector<Recipe> all;
  for (Found& f : found) all.push_back(std::move(f.recipe));
  return all;
}

}  // namespace

std::span<const ChangesOfKey> changes_by_key() {
  static constexpr std::array<ChangesOfKey, 14> all{{{other_offload},
                                                     {other_memory_reuse, true},
                                                     {other_micro_batch_overlap},
                                                     {other_pipelines},
                                                     {other_context_kinds, true},
                                                     {other_chunk_by, true},
                                                     {other_chunks, true},
                                                     {other_axis_orders},
                                                     {other_buckets},
                                                     {other_rows, true},
                                                     {other_duplicates, true},
                                                     {other_overlap, true},
                                                     {other_exchange, true},
                                                     {other_chunk_order, true}}};
  return all;
}

std::vector<Recipe> with_more_offloaded(const Recipe& r) {
  const bool optimizer = r.offload.optimizer == optim::StateOffload::none, activations = !r.offload.activations;
  std::vector<Recipe> all;
  const auto add = [&](bool with_optimizer, bool with_activations) {
    Recipe& c = all.emplace_back(r);
    if (with_optimizer) c.offload.optimizer = optim::StateOffload::file;
    if (with_activations) c.offload.activations = true;
  };
  if (optimizer) add(true, false);
  if (activations) add(false, true);
  if (optimizer && activations) add(true, true);
  return all;
}

}  // namespace hexad::plan
