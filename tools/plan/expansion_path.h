// Layouts for growing sequences, and the memory that a cluster lacks if none fits.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Largest number of ranks that is planned for.
inline constexpr int64_t most_planned_ranks = 1 << 20;

/// Question to a planner: one recipe with a length, a number of ranks, and an objective.
struct PlanQuestion {
  int64_t context;
  int64_t ranks;  // may be more than the cluster has; the plan then assumes more nodes of the same kind
  Objective objective = Objective::time;
  size_t wanted = 10;
  bool any_memory = false;  // true: every layout fits
};
/// Function that plans the recipe for a question, by search_plan().
using PlanAt = std::function<Plan(const PlanQuestion&)>;

/// A planned layout, with the length and the number of ranks for which it was planned.
struct FittingLayout {
  int64_t context, ranks;
  PlannedLayout layout;
};

/// Result of a search in which no layout fits.
struct Shortfall {
  std::optional<FittingLayout> least;  // the layout of least memory that was found; none if no layout is legal
  double memory;                       // bytes that tensors of a rank may take

  /// Returns the bytes that a rank lacks. Requires `least`.
  double missing() const { return least->layout.memory.total - memory; }
  /// True if the layout fits after all.
  bool fits() const { return least && missing() <= 0; }
};
/// Searches for the layout of least memory. `memory` is the number of bytes that tensors of a rank may take
/// (Plan::memory). This search leaves no layout out because of its estimated memory, so it may find one that fits where
/// a search within `memory` found none.
Shortfall shortfall(const PlanAt& plan_at, int64_t context, int64_t ranks, double memory);

/// Returns the fitting layout on the fewest ranks, of the number of ranks of `lack` doubled up to six times; none if
/// none fits. Skips numbers of ranks on which the memory of `lack.least`, spread evenly over all ranks, would not fit.
std::optional<FittingLayout> with_more_ranks(const PlanAt& plan_at, const Shortfall& lack);
/// Returns the fitting layout for the longest sequence on as many ranks as `lack` has, of its length halved while it is
/// at least 1024 tokens; none if none fits.
std::optional<FittingLayout> with_shorter_context(const PlanAt& plan_at, const Shortfall& lack);

/// Result for one length on the path.
struct PathPoint {
  int64_t context, ranks;
  std::optional<PlannedLayout> layout;  // the best one; none if no layout fits
  std::optional<Shortfall> lack;        // set if no layout fits: the shortfall on the most ranks
};
struct PathRequest {
  std::span<const int64_t> lengths;  // ascending, at least one
  int64_t ranks, most_ranks;         // number for the first length; maximum for any length
  Objective objective = Objective::time;
};
/// Returns the best layout of each length, in order. If no layout fits, doubles the ranks, up to `most_ranks`. Memory
/// grows with the length, so after a length that fits on no number of ranks, only the shortfalls of longer lengths are
/// searched. If this is the first length, its point is the only one.
std::vector<PathPoint> expansion_path(const PlanAt& plan_at, const PathRequest& request);

}  // namespace hexad::plan
