// Search for the layout of a recipe on a cluster.
#pragma once

#include <utility>
#include <vector>

#include "tools/plan/group_traffic.h"
#include "tools/plan/layer_costs.h"
#include "tools/plan/resource_gain.h"
#include "tools/plan/routed_memory.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Goal of a plan. time: the shortest step. memory: the least memory of a rank. Between equal layouts, the other of
/// these two quantities decides. ranks: the shortest step on the fewest ranks on which a layout fits (fewest_ranks()).
enum class Objective : uint8_t { time, memory, ranks };
constexpr auto enum_names(Objective) {
  return std::to_array<std::pair<Objective, std::string_view>>(
      {{Objective::time, "time"}, {Objective::memory, "memory"}, {Objective::ranks, "ranks"}});
}

/// Returns the quantities that a plan minimizes: the first one decides, and the second one breaks ties.
std::pair<double, double> goal(Objective objective, double seconds, double bytes);

struct PlannedLayout {
  PlanCandidate candidate;
  ComposedStep composed;
  /// Simulated step, and memory of the rank that needs the most.
  StepForecast step{};
  MemoryEstimate memory{};
  RoutedMemory routed{};  // set only with PlanRequest::details
};

struct Plan {
  std::vector<PlannedLayout> best;    // simulated, best first
  PlanCandidates candidates;          // counts of refusals; `legal` is empty
  int64_t legal = 0, too_large = 0;   // number of legal layouts; number of them that were found to exceed `memory`
  double memory = 0;                  // limit of a rank's tensors, in bytes
  double least_memory = 0;            // least bytes of any layout; rough or a lower bound if it was not simulated
  std::vector<ResourceGain> gains;    // for the first of `best`, the largest first (PlanRequest::details)
  std::vector<GroupTraffic> traffic;  // for the first of `best` (PlanRequest::details)
  int64_t simulated = 0;              // number of layouts simulated in the second stage
  int64_t changes = 0;                // number of changes tried in the third stage
};

/// Parameters of a search on `world` ranks of the cluster.
struct PlanRequest {
  int64_t world;
  Objective objective = Objective::time;
  RoutingLoad load = RoutingLoad::even;
  size_t wanted = 10;
  /// true: the plan also has the memory of the best layouts under each routing, and gains and traffic of the first
  /// layout.
  bool details = false;
  bool orders = true;  // false: parallel.order stays auto
};

/// Returns the best layouts, by three stages. The first stage composes steps of all legal layouts (LayerCosts). The
/// second stage estimates the memory of the most promising layouts, as hexad validate does, and simulates their steps.
/// The third stage varies keys that keep the sizes of groups, and tries offload for some layouts that are too large
/// (refine()). The first stage leaves out layouts whose state alone is too large (StateBound). Under Objective::memory,
/// it also leaves out layouts that need more memory than as many others as the second stage simulates: by a bound of
/// their state, or by the memory of the same layout with more recomputation. If the cluster does not give a rank's
/// memory, all layouts fit. Objective::ranks orders layouts of the
/// requested ranks like Objective::time. `costs` keeps costs of layers for later searches.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request, SharedCosts& costs);
/// Like the other overload, without costs of earlier searches.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request);

/// Adds the results that PlanRequest::details requests. Requires a plan with at least one layout.
void add_details(Plan& plan, const train::Extensions& extensions, const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
