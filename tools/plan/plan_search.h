// The best layouts of a recipe on a cluster.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tools/plan/group_bytes.h"
#include "tools/plan/layer_costs.h"
#include "tools/plan/resource_gain.h"
#include "tools/plan/routed_memory.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Objective of a plan.
/// - time: the shortest step; among equal layouts, the layout with the least memory of a rank
/// - memory: the least memory of a rank; among equal layouts, the layout with the shortest step
/// - ranks: the shortest step on the fewest ranks on which a layout fits (fewest_ranks())
enum class Objective : uint8_t { time, memory, ranks };
constexpr auto enum_names(Objective) {
  return std::to_array<std::pair<Objective, std::string_view>>(
      {{Objective::time, "time"}, {Objective::memory, "memory"}, {Objective::ranks, "ranks"}});
}

/// Returns the two quantities that a plan minimizes. The first decides, and the second breaks ties.
std::pair<double, double> goal(Objective objective, double seconds, double bytes);

struct PlannedLayout {
  PlanCandidate candidate;
  ComposedStep composed;
  /// Simulated step, and memory of the rank that needs the most.
  StepForecast step{};
  MemoryEstimate memory{};
  RoutedMemory routed{};  // set only with PlanRequest::details

  /// Returns the bytes that count towards the limit of a rank's tensors. These are whole blocks if the recipe has
  /// memory.limit_bytes, because this limit applies to whole blocks.
  double counted_memory() const { return candidate.recipe.memory.limit() > 0 ? memory.blocks : memory.total; }
};

/// Layouts that more memory of a rank, or more ranks, would allow (tools/plan/capacity_gain.h).
struct CapacityGains {
  std::optional<PlannedLayout> more_memory;  // none: no faster layout was found that needs more memory
  std::optional<PlannedLayout> twice_ranks;  // none: the cluster has too few ranks, or no layout fits
};

struct Plan {
  std::vector<PlannedLayout> best;  // simulated layouts, best first
  PlanCandidates candidates;        // counts of illegal combinations; `legal` is empty
  // Numbers of legal layouts. legal: all compared layouts. too_large: layouts that exceed or seem to exceed `memory`.
  // needless: layouts that were omitted because they needlessly recompute or have zero 2.
  int64_t legal = 0, too_large = 0, needless = 0;
  double memory = 0;  // limit of a rank's tensors, in bytes; infinite: unknown
  // Least memory of a rank, in bytes, among the layouts that are too large or were estimated. The value is only an
  // approximation or a lower bound if the memory of the smallest layout was not estimated.
  double least_memory = 0;
  std::vector<ResourceGain> gains;  // gains for best[0], the largest first (PlanRequest::details)
  std::vector<GroupBytes> traffic;  // traffic of best[0] (PlanRequest::details)
  // Set by search_plan() with PlanRequest::details if the plan has layouts, except under Objective::memory.
  std::optional<CapacityGains> capacity;
  int64_t simulated = 0;        // number of layouts simulated in the second stage
  int64_t changes = 0;          // number of changes tried in the third stage
  int64_t untried_changes = 0;  // number of legal changes that were not tried because of the limit of changes
  // Number of tried layouts that were refused only because the host's memory does not hold their offloaded tensors.
  int64_t too_large_for_host = 0;
};

/// Parameters of a search on `world` ranks of the cluster.
struct PlanRequest {
  int64_t world;
  Objective objective = Objective::time;
  RoutingLoad load = RoutingLoad::even;
  size_t wanted = 10;
  /// true: the plan also has the memory of the best layouts under each routing. It also has the gains, traffic and
  /// capacity gains of the first layout.
  bool details = false;
  bool orders = true;  // false: parallel.order remains auto, and the recipe's own layout is not compared
};

/// Returns the best layouts. The search has three stages:
/// - The first stage composes the steps of all legal layouts (compose_layouts()). It omits layouts whose state alone is
///   too large, and layouts that are far too large even with more recomputation. It also omits layouts that needlessly
///   recompute or have zero 2, if there are enough other layouts.
/// - The second stage estimates the memory of the most promising layouts, like `hexad validate`. With
///   PlanRequest::orders, it also estimates the recipe's own layout. It simulates the steps of all these layouts.
///   Therefore, the first layout of a plan is no worse than the recipe's own layout if the own layout fits.
/// - The third stage varies keys that keep the sizes of groups. It also tries offload for some layouts that are too
///   large (refine()).
///
/// All layouts fit if neither the cluster nor memory.limit_bytes limits a rank's memory. Objective::ranks orders the
/// layouts of the requested ranks like Objective::time. `costs` keeps the costs of layers for later searches.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request, SharedCosts& costs);
/// Returns the best layouts without using the costs of earlier searches.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request);

/// Adds the results that PlanRequest::details requests. Requires a plan with at least one layout.
void add_details(Plan& plan, const train::Extensions& extensions, const Cluster& cluster, const PlanRequest& request);

/// Returns the recipe's own layout, estimated and simulated like the best layouts of a plan. The result may exceed the
/// memory limit. Throws config::RecipeError if the layout is illegal on the requested ranks, and Error(usage) if the
/// time of its step cannot be predicted.
PlannedLayout layout_as_is(const config::Document& document, const train::Extensions& extensions,
                           const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
