// Text of `hexad plan`.
#pragma once

#include <string>
#include <vector>

#include "tools/hexad/commands/plan_figures.h"
#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Prints the assumptions of predictions on the cluster, and the costs that predicted steps do not include.
void print_limits(const plan::Cluster& cluster);

/// Prints plans of one recipe on one cluster. The plans must have details (PlanRequest::details). `planned` must
/// outlive the object.
class PlanOutput {
 public:
  explicit PlanOutput(const Planned& planned) : planned_(planned) {}

  /// Prints the table of layouts. The search took `seconds`.
  void print_table(const plan::Plan& plan, double seconds) const;
  /// Prints how the step of the best layout differs from the steps of the next layout and of the recipe's own layout,
  /// in seconds and settings.
  void print_explanation(const plan::Plan& plan, const OwnLayout& own) const;
  /// Prints why fewer ranks do not suffice, for the largest of the numbers that were tried.
  void print_fewer(const plan::Plan& plan, const std::vector<plan::FewestRanks::Refused>& fewer) const;

 private:
  void print_difference(const std::string& title, const plan::PlannedLayout& from, const plan::PlannedLayout& to) const;

  const Planned& planned_;
};

}  // namespace hexad::app
