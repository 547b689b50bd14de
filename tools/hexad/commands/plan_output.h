// Output of `hexad plan`.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Prints the assumptions of predictions on the cluster, and the costs that a predicted step leaves out.
void print_limits(const plan::Cluster& cluster);

/// Printer of plans of one recipe on one cluster. The plans have details (PlanRequest::details). The references must
/// outlive the object.
class PlanOutput {
 public:
  struct Planned {
    std::string recipe_path, cluster_path;
    const train::Recipe& recipe;
    const train::Extensions& extensions;
    const plan::Cluster& cluster;
    const plan::Prices& prices;
    std::string routing;            // --routing
    const plan::RoutingLoad& load;  // load that `routing` selects
    int64_t ranks;
  };
  explicit PlanOutput(const Planned& planned) : planned_(planned) {}

  /// Prints the table of layouts. The search took `seconds`.
  void print_table(const plan::Plan& plan, double seconds) const;
  /// Prints the differences between the steps of `from` and `to`, in seconds and settings, below the line `title`.
  void print_difference(const std::string& title, const plan::PlannedLayout& from, const plan::PlannedLayout& to) const;
  /// Prints why fewer ranks do not suffice, for the largest of the numbers that were tried.
  void print_fewer(const plan::Plan& plan, const std::vector<plan::FewestRanks::Refused>& fewer) const;
  void print_json(const plan::Plan& plan) const;

 private:
  struct Figures;
  Figures figures(const plan::PlannedLayout& layout) const;

  const Planned planned_;
};

}  // namespace hexad::app
