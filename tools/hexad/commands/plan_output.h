// Output of `hexad plan`.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Prints what predictions on the cluster assume, and what a step leaves out.
void print_limits(const plan::Cluster& cluster);

/// Prints plans of one recipe on one cluster, which have details (PlanRequest::details). The references must outlive
/// the object.
class PlanOutput {
 public:
  struct Planned {
    std::string recipe_path, cluster_path;
    const train::Recipe& recipe;
    const train::Extensions& extensions;
    const plan::Cluster& cluster;
    const plan::Prices& prices;
    std::string routing;            // --routing
    const plan::RoutingLoad& load;  // the same
    int64_t ranks;
  };
  explicit PlanOutput(const Planned& planned) : planned_(planned) {}

  /// Prints the table of layouts. The search took `seconds`.
  void print_table(const plan::Plan& plan, double seconds) const;
  /// Prints where the step of `to` differs from that of `from`, in seconds and settings. `title` is a line above.
  void print_difference(const std::string& title, const plan::PlannedLayout& from, const plan::PlannedLayout& to) const;
  /// Prints why fewer ranks do not do: the largest numbers of those that were tried.
  void print_fewer(const plan::Plan& plan, const std::vector<plan::FewestRanks::Refused>& fewer) const;
  void print_json(const plan::Plan& plan) const;

 private:
  struct Figures;
  Figures figures(const plan::PlannedLayout& layout) const;

  const Planned planned_;
};

}  // namespace hexad::app
