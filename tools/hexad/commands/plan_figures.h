// Figures about planned layouts, for the text and the JSON output of `hexad plan`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plan/layout_walk.h"
#include "tools/plan/plan_search.h"

namespace hexad::app {

/// A recipe and the cluster on which it was planned. The referenced objects must outlive this struct.
struct Planned {
  std::string recipe_path, cluster_path;
  const train::Recipe& recipe;
  const train::Extensions& extensions;
  const plan::Cluster& cluster;
  const plan::Prices& prices;
  std::string routing;            // value of --routing
  const plan::RoutingLoad& load;  // the load that `routing` describes
  int64_t ranks;
  plan::Objective objective;
};

/// Figures derived from the prediction of a layout.
struct LayoutFigures {
  plan::Throughput rates;
  /// Shares of the step, as means over stages: exposed communication of each class, kernels, and idle time.
  double exposed[comm::traffic_class_count];
  double kernels, idle;

  /// Returns the classes whose exposed communication is at least 0.5% of the step: "ep 12%, pp 3%"; "-" if there are
  /// none.
  std::string exposed_text() const;
  /// Returns the largest part of the step: "kernels", a class of exposed communication, or "idle".
  std::string_view bound_by() const;
};
LayoutFigures figures_of(const Planned& planned, const plan::PlannedLayout& layout);

/// Differences between the predicted steps of two layouts.
struct LayoutComparison {
  struct Part {
    std::string name;
    double from, to;  // seconds of a step
  };
  std::vector<Part> parts;  // parts that differ by more than 0.1% of the first layout's step
  std::vector<plan::ChangedSetting> settings;
};
LayoutComparison compare(const Planned& planned, const plan::PlannedLayout& from, const plan::PlannedLayout& to);

/// Layout of the unchanged recipe, or the reason (`problem`) why the recipe has none that can be compared.
struct OwnLayout {
  std::optional<plan::PlannedLayout> layout;
  std::string problem;
};

/// Comparison of the best layout with the second best and with the unchanged recipe.
struct Explanation {
  OwnLayout own{};
  /// Walks from the best layout to the second best layout, and to the layout of the unchanged recipe. A walk is empty
  /// if its last layout is missing.
  std::vector<plan::WalkStep> to_second{}, to_own{};
};

/// Layout on twice the ranks, compared with the best layout.
struct TwiceRanks {
  LayoutFigures figures;
  double efficiency;  // tokens per second on twice the ranks, divided by twice the best layout's tokens per second
};
TwiceRanks figures_on_twice(const Planned& planned, const plan::PlannedLayout& best,
                            const plan::PlannedLayout& on_twice);

/// Returns the groups of all `layouts` that have different numbers of ranks on their nodes
/// (plan::StepForecast::uneven_groups).
std::set<std::string> uneven_groups_of(const std::vector<plan::PlannedLayout>& layouts);

/// Returns a text about the costs that predicted steps do not include.
std::string_view unmodelled_costs();

}  // namespace hexad::app
