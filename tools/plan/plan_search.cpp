#include "tools/plan/plan_search.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "layers/model_size.h"
#include "tools/plan/plan_refinement.h"
#include "tools/plan/state_bound.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {
namespace {

// A layout is excluded if its composed estimate exceeds this multiple of the limit. Composed estimates are approximate.
constexpr double composed_error = 1.15;
// If the composed estimate exceeds this multiple of the limit, the same layout with less recomputation is also
// excluded. Less recomputation keeps more tensors. It saves only the memory of the part that is recomputed at the same
// time, which is small compared with this margin.
constexpr double error_of_less_recomputation = 1.25;
// A layout is not tried with offload if its composed estimate exceeds this multiple of the limit. In bf16, the
// optimizer's state is 12 of the 18 bytes of a parameter.
constexpr double offloaded_reach = 3;
// Number of layouts that are simulated for each requested layout.
constexpr size_t simulated_per_wanted = 2;

// Settings of a layout, except recomputation.
using Settings = std::array<int64_t, 10>;

Settings settings_beside_recomputation(const train::Recipe& r) {
  const train::ParallelConfig& p = r.parallel;
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  return {p.tp,
          p.cp,
          static_cast<int64_t>(p.cp_kind),
          p.pp,
          static_cast<int64_t>(pipeline.kind),
          pipeline.chunks,
          p.ep,
          p.etp.value_or(p.tp),
          p.zero,
          r.batch.micro};
}

// Returns the indices of the candidates, those with the most recomputation first. The sort is stable.
std::vector<size_t> most_recomputation_first(const std::vector<PlanCandidate>& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return candidates[i].recipe.recompute; });
  return order;
}

// Least number of layouts that a search for the least memory keeps, because refinement starts from several layouts.
constexpr size_t fewest_wanted = 8;

// Limit above which the memory of a layout does not matter under Objective::memory. If n layouts are to be simulated,
// the limit is the n-th smallest memory composed so far. Other objectives have no limit.
class WantedMemory {
 public:
  explicit WantedMemory(const PlanRequest& request)
      : layouts_(request.objective == Objective::memory ? std::max(fewest_wanted, simulated_per_wanted * request.wanted)
                                                        : 0) {}

  void add(double bytes) {
    if (layouts_ == 0) return;
    least_.insert(bytes);
    if (least_.size() > layouts_) least_.erase(std::prev(least_.end()));
  }
  double limit() const {
    return layouts_ > 0 && least_.size() == layouts_ ? *least_.rbegin() : std::numeric_limits<double>::infinity();
  }

 private:
  const size_t layouts_;
  std::multiset<double> least_;
};

// Returns an object for the results that the runs of all layouts share; null if the loads of experts are given. The
// choices of experts then differ between layers and layouts, and would take much memory.
std::shared_ptr<SharedByRuns> shared_by_layouts(const RoutingLoad& load) {
  return load == RoutingLoad::given ? nullptr : std::make_shared<SharedByRuns>();
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
  plan.least_memory = std::numeric_limits<double>::infinity();
  const StateBound state(recipe, layers::parameter_counts(recipe.model, extensions), cluster);
  WantedMemory wanted(request);
  std::set<Settings> far_too_large;  // settings that are too large even with the most recomputation
  // Settings whose memory is far above wanted.limit(), even with the most recomputation.
  std::set<Settings> unwanted;
  std::vector<std::optional<ComposedStep>> composed(legal.size());
  std::vector<PlannedLayout> too_large;  // candidates for offload
  for (const size_t i : most_recomputation_first(legal)) {
    const Settings settings = settings_beside_recomputation(legal[i].recipe);
    double bytes = state.of_layout(legal[i].recipe, request.world);
    if (bytes <= memory && !far_too_large.contains(settings)) {
      if (unwanted.contains(settings) || bytes > composed_error * wanted.limit()) continue;
      bytes = costs.memory(legal[i]);
      wanted.add(bytes);
      if (bytes > error_of_less_recomputation * wanted.limit()) unwanted.insert(settings);
      if (bytes <= offloaded_reach * memory) composed[i] = costs.step(legal[i]);
      if (bytes <= composed_error * memory) continue;
      if (bytes > error_of_less_recomputation * memory) far_too_large.insert(settings);
      if (composed[i]) too_large.push_back({.candidate = std::move(legal[i]), .composed = *composed[i]});
      composed[i].reset();
    }
    ++plan.too_large;
    if (bytes > memory) plan.least_memory = std::min(plan.least_memory, bytes);
  }
  std::vector<PlannedLayout> layouts;
  for (size_t i = 0; i < legal.size(); ++i)
    if (composed[i]) layouts.push_back({.candidate = std::move(legal[i]), .composed = *composed[i]});
  std::ranges::stable_sort(layouts, {}, [&](const PlannedLayout& l) {
    return goal(request.objective, l.composed.seconds, l.composed.memory);
  });

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
  for (PlannedLayout& l : layouts) {
    if (plan.best.size() == simulated_per_wanted * request.wanted) break;
    l.memory = estimate_memory_within(memory, l.candidate.recipe, extensions, request.world, request.load, site.shared);
    plan.least_memory = std::min(plan.least_memory, l.memory.total);
    if (l.counted_memory() > memory) {
      ++plan.too_large;
      too_large.push_back(std::move(l));
      continue;
    }
    simulate(l, site);
    plan.best.push_back(std::move(l));
  }
  plan.simulated = std::ssize(plan.best);
  refine(plan, std::move(too_large), site);
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
