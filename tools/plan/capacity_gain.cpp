#include "tools/plan/capacity_gain.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "tools/plan/composed_layouts.h"
#include "tools/plan/plan_refinement.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// Largest number of layouts whose memory is estimated.
constexpr size_t max_estimated = 3;

bool is_shorter(const PlannedLayout& a, const PlannedLayout& b) { return a.composed.seconds < b.composed.seconds; }

// Estimates the memory of the first max_estimated layouts, in their order. Returns the first of them that meets all of
// these conditions; nullopt if there is none:
// - it needs more than `least` and at most `most` bytes
// - its offloaded tensors fit into host memory
// - it can be simulated
std::optional<PlannedLayout> first_that_fits(std::vector<PlannedLayout> layouts, double least, double most,
                                             const PlanSite& site) {
  if (layouts.size() > max_estimated) layouts.resize(max_estimated);
  for (PlannedLayout& l : layouts) {
    l.memory = estimate_memory_within(most, l.candidate.recipe, site.extensions, site.request.world, site.request.load,
                                      site.shared);
    const double bytes = l.counted_memory();
    if (bytes > least && bytes <= most && l.memory.offloaded <= site.host_memory && is_simulated(l, site))
      return std::move(l);
  }
  return {};
}

// Returns variants of `best` for twice the ranks, with dp, tp, cp or pp doubled. Each of these variants has the ep of
// `best`. Adds a copy of each variant with twice this ep if the number of experts is divisible by twice this ep. Omits
// a tp above `domain` and a pp above the number of layers. A doubled tp sets sp. ZeRO is at least 1 if dp * cp > 1.
// Micro-batches become smaller if the batch requires it. These layouts may be illegal.
std::vector<Recipe> with_a_doubled_axis(const Recipe& best, int64_t world, int64_t domain) {
  std::vector<Recipe> all{best};  // the first variant doubles dp
  const train::ParallelConfig& p = best.parallel;
  if (2 * p.tp <= domain) {
    Recipe& r = all.emplace_back(best);
    r.parallel.tp *= 2, r.parallel.sp = true;
  }
  Recipe& longer = all.emplace_back(best);
  longer.parallel.cp *= 2;
  if (2 * p.pp <= best.model.layers) {
    Recipe& r = all.emplace_back(best);
    r.parallel.pp *= 2;
    r.schedule.pipeline.split.clear();
  }
  for (size_t i = 0, count = all.size(); i < count; ++i)
    if (best.model.moe.experts % (2 * p.ep) == 0 && best.model.moe.experts > 0)
      all.emplace_back(all[i]).parallel.ep *= 2;
  for (Recipe& r : all) {
    const int64_t dp = 2 * world / (r.parallel.tp * r.parallel.cp * r.parallel.pp);
    while (r.batch.micro > 1 && r.batch.global % (r.batch.micro * dp) != 0) r.batch.micro /= 2;
    if (dp * r.parallel.cp > 1) r.parallel.zero = std::max<int64_t>(1, r.parallel.zero);
  }
  return all;
}

}  // namespace

std::vector<PlannedLayout> within_more_memory(const std::vector<PlannedLayout>& composed, double memory) {
  std::vector<PlannedLayout> some;
  std::ranges::copy_if(composed, std::back_inserter(some), [&](const PlannedLayout& l) {
    return l.composed.memory <= composed_error * memory_more * memory;
  });
  std::ranges::stable_sort(some, is_shorter);
  if (some.size() > max_estimated) some.resize(max_estimated);
  return some;
}

std::vector<PlanCandidate> with_larger_state(const std::vector<PlanCandidate>& layouts, const StateBound& state,
                                             int64_t world, double memory) {
  std::vector<PlanCandidate> some;
  const auto add = [&](const PlanCandidate& c) {
    const double bytes = state.layout_bytes(c.recipe, world);
    if (bytes > memory && bytes <= memory_more * memory) some.push_back(c);
  };
  for (const PlanCandidate& layout : layouts) {
    // The variants of a layout whose state fits also fit, because they need no more memory than the layout.
    if (state.layout_bytes(layout.recipe, world) <= memory) continue;
    add(layout);
    for (const PlanCandidate& variant : variants(layout)) add(variant);
  }
  return some;
}

std::vector<PlanCandidate> neighbours_of(const PlanCandidate& best, std::vector<PlanCandidate> candidates) {
  const auto sizes = [](const PlanCandidate& c) {
    const train::ParallelConfig& p = c.recipe.parallel;
    return std::array{p.tp, p.cp, p.pp, p.ep};
  };
  const auto own = sizes(best);
  std::erase_if(candidates, [&](const PlanCandidate& c) {
    const auto other = sizes(c);
    int different = 0;
    for (size_t i = 0; i < own.size(); ++i) different += own[i] != other[i] ? 1 : 0;
    return different > 1;
  });
  return candidates;
}

std::optional<PlannedLayout> with_more_memory(const PlannedLayout& best, std::vector<PlannedLayout> excluded,
                                              const PlanSite& site) {
  std::ranges::stable_sort(excluded, is_shorter);
  for (PlannedLayout& l : excluded) {
    Recipe r = l.candidate.recipe;
    r.schedule.moe = best.candidate.recipe.schedule.moe;
    r.schedule.pipeline.overlap = best.candidate.recipe.schedule.pipeline.overlap;
    r.distributed.bucket_bytes = best.candidate.recipe.distributed.bucket_bytes;
    if (!site.rules.broken(r)) l.candidate.recipe = std::move(r);
  }
  std::optional<PlannedLayout> found =
      first_that_fits(std::move(excluded), site.memory, memory_more * site.memory, site);
  if (found && found->step.seconds >= best.step.seconds) found.reset();
  return found;
}

std::optional<PlannedLayout> on_twice_the_ranks(const PlannedLayout& best, const config::Document& document,
                                                const train::Extensions& extensions, const Cluster& cluster,
                                                PlanRequest request, double memory, SharedCosts& costs) {
  const Prices prices(cluster);
  const int64_t world = std::exchange(request.world, 2 * request.world);
  if (request.world > prices.nodes() * prices.ranks_per_node()) return {};
  LayoutRules rules(document, extensions, request.world, prices.ranks_per_node());
  std::vector<PlanCandidate> legal;
  for (Recipe& r : with_a_doubled_axis(best.candidate.recipe, world, prices.domain()))
    if (!rules.broken(r)) legal.push_back({std::move(r)});
  std::vector<PlannedLayout> layouts =
      compose_all(std::move(legal), costs.of(extensions, cluster, request.world, request.load), Objective::time);
  std::erase_if(layouts, [&](const PlannedLayout& l) { return l.composed.memory > composed_error * memory; });
  const StepPrices of_steps(cluster, static_cast<int>(request.world));
  return first_that_fits(std::move(layouts), 0, memory,
                         {.rules = rules,
                          .extensions = extensions,
                          .prices = of_steps,
                          .request = request,
                          .memory = memory,
                          .host_memory = offload_memory(cluster)});
}

}  // namespace hexad::plan
