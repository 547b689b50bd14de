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

/// Goal of a plan. time: the shortest step. memory: the least memory of a rank. Of equal ones the other decides. ranks:
/// the shortest step on the fewest ranks that have room (fewest_ranks()).
enum class Objective : uint8_t { time, memory, ranks };
constexpr auto enum_names(Objective) {
  return std::to_array<std::pair<Objective, std::string_view>>(
      {{Objective::time, "time"}, {Objective::memory, "memory"}, {Objective::ranks, "ranks"}});
}

/// Returns what a plan makes as small as possible: a pair of the figure that decides and the one that decides between
/// equal ones.
std::pair<double, double> goal(Objective objective, double seconds, double bytes);

struct PlannedLayout {
  PlanCandidate candidate;
  ComposedStep composed;
  /// The simulated step, and the memory of the rank that needs most.
  StepForecast step{};
  MemoryEstimate memory{};
  RoutedMemory routed{};  // PlanRequest::details
};

struct Plan {
  std::vector<PlannedLayout> best;    // simulated, best first
  PlanCandidates candidates;          // counts of refusals; `legal` is empty
  int64_t legal = 0, too_large = 0;   // layouts; those whose memory exceeds that of a rank
  double memory = 0;                  // bytes that tensors of a rank may take
  double least_memory = 0;            // bytes of the layout that needs least; a bound or rough for those not simulated
  std::vector<ResourceGain> gains;    // of the first of `best`, the largest first (PlanRequest::details)
  std::vector<GroupTraffic> traffic;  // of the first of `best` (PlanRequest::details)
  int64_t simulated = 0;              // layouts whose whole step was simulated in the second stage
  int64_t changes = 0;                // changes of layouts that were tried in the third stage
};

/// Search of `world` ranks of the cluster.
struct PlanRequest {
  int64_t world;
  Objective objective = Objective::time;
  RoutingLoad load = RoutingLoad::even;
  size_t wanted = 10;
  /// true: also the memory of the best layouts under each routing, and gains and traffic of the first.
  bool details = false;
  bool orders = true;  // false: parallel.order stays auto
};

/// Returns the best layouts. In the first stage, steps of all legal layouts are composed (LayerCosts). In the second
/// stage, those that seem best are estimated as hexad validate does, and simulated. In the third stage, the best are
/// changed in keys that keep the sizes of groups, and some that are too large are offloaded (refine()). The cluster
/// must say the memory of a rank; otherwise all layouts fit. Objective::ranks orders layouts of the requested ranks
/// like time. `costs` has the costs of layers that earlier searches have needed.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request, SharedCosts& costs);
/// Searches without costs of earlier searches.
Plan search_plan(const config::Document& document, const train::Recipe& recipe, const train::Extensions& extensions,
                 const Cluster& cluster, const PlanRequest& request);

/// Adds what PlanRequest::details asks for. The plan has a layout.
void add_details(Plan& plan, const train::Extensions& extensions, const Cluster& cluster, const PlanRequest& request);

}  // namespace hexad::plan
