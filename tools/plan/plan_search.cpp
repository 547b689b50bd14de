#include "tools/plan/plan_search.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "layers/model_size.h"
#include "tools/plan/capacity_gain.h"
#include "tools/plan/composed_layouts.h"
#include "tools/plan/plan_refinement.h"
#include "tools/plan/state_bound.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// Returns an object for the results that the runs of all layouts share; null if the loads of experts are given. The
// choices of experts then differ between layers and layouts, and would take much memory.
std::shared_ptr<SharedByRuns> shared_by_layouts(const RoutingLoad& load) {
  return load == RoutingLoad::given ? nullptr : std::make_shared<SharedByRuns>();
}

// True if both recipes have the same layout.
bool have_same_layout(const Recipe& a, const Recipe& b, int64_t world) {
  const auto sizes = [](const Recipe& r) {
    return std::array{r.parallel.tp, r.parallel.cp, r.parallel.pp, r.parallel.ep, r.batch.micro};
  };
  return sizes(a) == sizes(b) &&
         PlanCandidate{a}.effective_settings(world) == PlanCandidate{b}.effective_settings(world);
}

// Returns the recipe's own layout with its step. Returns none if the layout is illegal or too large, cannot be
// simulated, or is already in `plan.best`. Adds the layout to the counts of `plan` if it is legal but not one of the
// candidates. The candidates may lack the layout, because the search does not try all values of the keys.
std::optional<PlannedLayout> simulate_as_is(Plan& plan, const Recipe& recipe, bool is_candidate, const PlanSite& site) {
  const int64_t world = site.request.world;
  if (site.rules.broken(recipe)) return {};
  plan.legal += is_candidate ? 0 : 1;
  for (const PlannedLayout& l : plan.best)
    if (have_same_layout(l.candidate.recipe, recipe, world)) return {};
  PlannedLayout own{.candidate = {recipe}, .composed = {}};
  own.memory = estimate_memory_within(plan.memory, recipe, site.extensions, world, site.request.load, site.shared);
  if (own.counted_memory() <= plan.memory) {
    if (is_simulated(own, site)) return own;
  } else if (!is_candidate) {
    ++plan.too_large;
    plan.least_memory = std::min(plan.least_memory, own.memory.total);
  }
  return {};
}

}  // namespace

std::pair<double, double> goal(Objective objective, double seconds, double bytes) {
  return objective == Objective::memory ? std::pair(bytes, seconds) : std::pair(seconds, bytes);
}

Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request) {
  SharedCosts costs;
  return search_plan(document, recipe, extensions, cluster, request, costs);
}

Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request, SharedCosts& shared) {
  const int64_t ranks_per_node = Prices(cluster).ranks_per_node();
  const int64_t domain = cluster.machine ? cluster.machine->domain.value_or(ranks_per_node) : ranks_per_node;
  Plan plan;
  const PlanSpace space{.world = request.world, .ranks_per_domain = domain, .ranks_per_node = ranks_per_node};
  plan.candidates = plan_candidates(document, recipe, extensions, space);
  std::vector<PlanCandidate> legal = std::exchange(plan.candidates.legal, {});
  plan.legal = std::ssize(legal) + plan.candidates.variants;
  const Recipe own_or_its_layout = without_variant({recipe}).recipe;
  const bool own_is_candidate = std::ranges::any_of(
      legal, [&](const PlanCandidate& c) { return have_same_layout(c.recipe, own_or_its_layout, request.world); });

  const double memory = plan.memory = tensor_memory(cluster, recipe);
  LayerCosts& costs = shared.of(extensions, cluster, request.world, request.load);
  const StateBound state(recipe, layers::parameter_counts(recipe.model, extensions), cluster);
  const bool gains_capacity = request.details && request.objective != Objective::memory;
  std::vector<PlanCandidate> larger;
  if (gains_capacity) larger = with_larger_state(legal, state, request.world, memory);
  ComposedLayouts layouts = compose_layouts(std::move(legal), state, costs, memory, request);
  plan.too_large = layouts.too_large_count, plan.least_memory = layouts.least_memory;

  const auto world = static_cast<int>(request.world);
  const StepPrices prices(cluster, world);
  LayoutRules rules(document, extensions, request.world, ranks_per_node);
  const PlanSite site{.rules = rules,
                      .extensions = extensions,
                      .prices = prices,
                      .request = request,
                      .memory = memory,
                      .host_memory = offload_memory(cluster),
                      .shared = shared_by_layouts(request.load)};
  const auto enough = [&] { return plan.best.size() >= simulated_per_wanted * request.wanted; };
  const auto simulate_best = [&](std::vector<PlannedLayout>& composed) {
    for (PlannedLayout& l : composed) {
      if (enough()) break;
      l.memory =
          estimate_memory_within(memory, l.candidate.recipe, extensions, request.world, request.load, site.shared);
      plan.least_memory = std::min(plan.least_memory, l.memory.total);
      if (l.counted_memory() > memory) {
        ++plan.too_large;
        layouts.too_large.push_back(std::move(l));
        continue;
      }
      simulate(l, site);
      plan.best.push_back(std::move(l));
    }
  };
  simulate_best(layouts.promising);
  plan.needless = layouts.needless_variants;
  if (enough()) {
    plan.needless += std::ssize(layouts.needless);
  } else {
    std::vector<PlannedLayout> needless = compose_all(std::move(layouts.needless), costs, request.objective);
    simulate_best(needless);
  }
  std::vector<PlannedLayout> excluded;
  if (gains_capacity) excluded = within_more_memory(layouts.too_large, memory);
  std::optional<PlannedLayout> own;
  if (request.orders) own = simulate_as_is(plan, recipe, own_is_candidate, site);
  plan.simulated = std::ssize(plan.best) + (own ? 1 : 0);
  refine(plan, std::move(layouts.too_large), std::move(own), site);
  if (plan.best.size() > request.wanted) plan.best.resize(request.wanted);
  if (request.details && !plan.best.empty()) add_details(plan, extensions, cluster, request);
  if (gains_capacity && !plan.best.empty()) {
    const PlannedLayout& best = plan.best.front();
    std::ranges::move(
        within_more_memory(compose_all(neighbours_of(best.candidate, std::move(larger)), costs, request.objective),
                           memory),
        std::back_inserter(excluded));
    plan.capacity = {.more_memory = with_more_memory(best, std::move(excluded), site),
                     .twice_ranks = on_twice_the_ranks(best, document, extensions, cluster, request, memory, shared)};
  }
  return plan;
}

void add_details(Plan& plan, const train::Extensions& extensions, const Cluster& cluster, const PlanRequest& request) {
  const std::shared_ptr<SharedByRuns> shared = shared_by_layouts(request.load);
  for (PlannedLayout& l : plan.best) {
    const train::Recipe& r = l.candidate.recipe;
    const bool even = request.load == RoutingLoad::even;
    const double bytes =
        even ? l.memory.total : estimate_memory(r, extensions, request.world, RoutingLoad::even, shared).total;
    l.routed = routed_memory(r, extensions, request.world, bytes, shared);
  }
  const auto world = static_cast<int>(request.world);
  const StepPrices prices(cluster, world);
  const PlannedLayout& best = plan.best.front();
  const train::Recipe& r = best.candidate.recipe;
  const RecordedStep recorded =
      record_for_forecast(r, extensions, mesh::Layout(r.parallel.sizes(), world), prices, request.load, shared);
  plan.gains = resource_gains(recorded, best.step.seconds, r, cluster, world);
  plan.traffic = bytes_by_group(recorded, prices);
}

}  // namespace hexad::plan
