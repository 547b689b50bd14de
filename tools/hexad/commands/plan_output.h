// Text output of `hexad plan`.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/hexad/commands/plan_figures.h"
#include "tools/plan/fewest_ranks.h"

namespace hexad::app {

/// Prints the assumptions of predictions on the cluster, and the costs that predicted steps do not include.
/// `uneven_groups` are those of the predicted steps (plan::StepForecast::uneven_groups).
void print_limits(const plan::Cluster& cluster, const std::set<std::string>& uneven_groups);

/// Prints plans for one recipe on one cluster. The plans must have details (PlanRequest::details). `planned` must
/// outlive the object.
class PlanOutput {
 public:
  explicit PlanOutput(const Planned& planned) : planned_(planned) {}

  /// Prints the table of layouts. `seconds` is the duration of the search.
  void print_table(const plan::Plan& plan, double seconds) const;
  /// Compares the best layout with the second best and with the recipe's own layout. Prints the differences in step
  /// time, and a walk from the best to the other layout.
  void print_explanation(const plan::Plan& plan, const Explanation& explanation) const;
  /// Prints the smallest sufficient number of ranks, and the reasons why the largest insufficient numbers do not
  /// suffice.
  void print_fewer(const plan::Plan& plan, const std::vector<plan::FewestRanks::Refused>& fewer) const;

 private:
  void print_gains(const plan::Plan& plan) const;
  void print_difference(const std::string& title, const plan::PlannedLayout& to, const plan::Plan& plan,
                        const std::vector<plan::WalkStep>& walk) const;

  const Planned& planned_;
};

}  // namespace hexad::app
