#include "tools/plan/plan_search.h"

#include <algorithm>
#include <utility>

#include "framework/config/recipe_error.h"
#include "layers/model_size.h"
#include "tools/plan/composed_layouts.h"
#include "tools/plan/layout_as_is.h"
#include "tools/plan/plan_refinement.h"
#include "tools/plan/state_bound.h"

namespace hexad::plan {
namespace {

// Returns an object for the results that the runs of all layouts share; null if the loads of experts are given. The
// choices of experts then differ between layers and layouts, and would take much memory.
std::shared_ptr<SharedByRuns> shared_by_layouts(const RoutingLoad& load) {
  return load == RoutingLoad::given ? nullptr : std::make_shared<SharedByRuns>();
}

// Adds the recipe's own layout, unless it is illegal, too large, or among the plan's layouts. It may be a layout that
// the search does not try, or that only seems slow.
void add_recipe_as_is(Plan& plan, const config::Document& document, const PlanSite& site) {
  const int64_t world = site.request.world;
  std::optional<PlannedLayout> own;
  try {
    own = {.candidate = {recipe_as_is(document, site.extensions, world)}, .composed = {}};
  } catch (const config::RecipeError&) {
    return;
  }
  const auto settings = own->candidate.effective_settings(world);
  for (const PlannedLayout& l : plan.best)
    if (l.candidate.effective_settings(world) == settings) return;
  own->memory = estimate_memory_within(plan.memory, own->candidate.recipe, site.extensions, world, site.request.load,
                                       site.shared);
  if (own->counted_memory() > plan.memory) return;
  simulate(*own, site);
  plan.legal = std::max<int64_t>(plan.legal, 1);
  plan.best.push_back(std::move(*own));
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
  plan.legal = std::ssize(legal);

  const double memory = plan.memory = tensor_memory(cluster, recipe);
  LayerCosts& costs = shared.of(extensions, cluster, request.world, request.load);
  const StateBound state(recipe, layers::parameter_counts(recipe.model, extensions), cluster);
  ComposedLayouts layouts = compose_layouts(std::move(legal), state, costs, memory, request);
  plan.too_large = layouts.too_large_count, plan.least_memory = layouts.least_memory;

  const auto world = static_cast<int>(request.world);
  const StepPrices prices(cluster, world);
  const LayoutRules rules(document, extensions, request.world, ranks_per_node);
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
  if (enough()) {
    plan.needless = std::ssize(layouts.needless);
  } else {
    std::vector<PlannedLayout> needless = compose_all(std::move(layouts.needless), costs, request.objective);
    simulate_best(needless);
  }
  add_recipe_as_is(plan, document, site);
  plan.simulated = std::ssize(plan.best);
  refine(plan, std::move(layouts.too_large), site);
  if (plan.best.size() > request.wanted) plan.best.resize(request.wanted);
  if (request.details && !plan.best.empty()) add_details(plan, extensions, cluster, request);
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
  plan.traffic = group_traffic(recorded, prices);
}

}  // namespace hexad::plan
