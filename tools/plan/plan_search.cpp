#include "tools/plan/plan_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "layers/model_size.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {
namespace {

// Memory that a rank's program needs beside tensors: the runtime's context, libraries, and communication buffers.
constexpr double reserved_share = 0.06;
// Composed estimates may be this much above the limit before a layout is left out, because they are rough.
constexpr double composed_error = 1.15;
// A composed estimate this much above the limit also rules out the same layout with less recomputation. Its tensors are
// more but for the part that is computed again at a time, which is small beside this margin.
constexpr double error_of_less_recomputation = 1.25;
// Layouts simulated for each one that is wanted.
constexpr size_t simulated_per_wanted = 2;

// Returns a lower bound of a rank's bytes for weights and gradients, which needs no run.
double least_state(const train::Recipe& r, const layers::ModelSize& size, int64_t world) {
  const train::ParallelConfig& p = r.parallel;
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double bytes = number(base::size_of(train::dtype_of(r.train.precision))) +
                       (r.optim.grad_dtype == optim::GradientDtype::bf16 ? 2.0 : 4.0);
  const double experts = number(size.expert_parameters), dense = number(size.parameters) - experts;
  if (p.zero == 3) return bytes * (experts + dense) / number(world);
  return bytes * (dense / number(p.tp * p.pp) + experts / number(p.ep * p.etp.value_or(p.tp) * p.pp));
}

// Settings of a layout other than recomputation.
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

// Returns the candidates' indices: those with most recomputation first, otherwise in order.
std::vector<size_t> most_recomputation_first(const std::vector<PlanCandidate>& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return candidates[i].recipe.recompute; });
  return order;
}

double memory_of_rank(const Cluster& cluster) {
  if (!cluster.machine) return std::numeric_limits<double>::infinity();
  return static_cast<double>(cluster.machine->memory) * (1 - reserved_share);
}

}  // namespace

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
  plan.candidates = plan_candidates(document, recipe, extensions, {.world = request.world, .ranks_per_domain = domain});
  std::vector<PlanCandidate> legal = std::exchange(plan.candidates.legal, {});
  plan.legal = std::ssize(legal);

  const double memory = plan.memory = memory_of_rank(cluster);
  LayerCosts& costs = shared.of(extensions, cluster, request.world);
  plan.least_memory = std::numeric_limits<double>::infinity();
  const layers::ModelSize size = layers::model_size(recipe.model, extensions);
  std::set<Settings> far_too_large;  // with the most recomputation
  std::vector<std::optional<ComposedStep>> composed(legal.size());
  for (const size_t i : most_recomputation_first(legal)) {
    const Settings settings = settings_beside_recomputation(legal[i].recipe);
    double bytes = least_state(legal[i].recipe, size, request.world);
    if (bytes <= memory && !far_too_large.contains(settings)) {
      composed[i] = costs.step(legal[i]);
      bytes = composed[i]->memory;
      if (bytes <= composed_error * memory) continue;
      if (bytes > error_of_less_recomputation * memory) far_too_large.insert(settings);
      composed[i].reset();
    }
    ++plan.too_large;
    if (bytes > memory) plan.least_memory = std::min(plan.least_memory, bytes);
  }
  std::vector<PlannedLayout> layouts;
  for (size_t i = 0; i < legal.size(); ++i)
    if (composed[i]) layouts.push_back({.candidate = std::move(legal[i]), .composed = *composed[i]});
  const auto goal = [&](double seconds, double bytes) {
    return request.objective == Objective::memory ? std::pair(bytes, seconds) : std::pair(seconds, bytes);
  };
  std::ranges::stable_sort(layouts, {},
                           [&](const PlannedLayout& l) { return goal(l.composed.seconds, l.composed.memory); });

  const auto world = static_cast<int>(request.world);
  const StepPrices prices(cluster, world);
  const auto predicted = [&](const PlannedLayout& l) { return goal(l.step.seconds, l.memory.total); };
  RecordedStep of_first;  // recorded step of the best layout so far
  auto first = goal(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
  for (PlannedLayout& l : layouts) {
    if (plan.best.size() == simulated_per_wanted * request.wanted) break;
    const train::Recipe& r = l.candidate.recipe;
    l.memory = estimate_memory(r, extensions, request.world, request.load);
    plan.least_memory = std::min(plan.least_memory, l.memory.total);
    if (l.memory.total > memory) {
      ++plan.too_large;
      continue;
    }
    RecordedStep recorded =
        record_for_forecast(r, extensions, mesh::Layout(r.parallel.sizes(), world), prices, request.load);
    l.step = simulate_recorded(recorded, r, prices);
    l.step.simulated = {};
    if (predicted(l) < first) first = predicted(l), of_first = std::move(recorded);
    plan.best.push_back(std::move(l));
  }
  std::ranges::stable_sort(plan.best, {}, predicted);
  plan.simulated = std::ssize(plan.best);
  if (plan.best.size() > request.wanted) plan.best.resize(request.wanted);
  if (!request.details || plan.best.empty()) return plan;
  for (PlannedLayout& l : plan.best) {
    const train::Recipe& r = l.candidate.recipe;
    const bool even = request.load == RoutingLoad::even;
    l.routed = routed_memory(r, extensions, request.world,
                             even ? l.memory.total : estimate_memory(r, extensions, request.world).total);
  }
  const PlannedLayout& best = plan.best.front();
  plan.gains = resource_gains(of_first, best.step.seconds, best.candidate.recipe, cluster, world);
  plan.traffic = group_traffic(of_first, prices);
  return plan;
}

}  // namespace hexad::plan
