// Layouts for growing sequence lengths, and the missing memory if no layout fits.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Largest number of ranks of a plan.
inline constexpr int64_t max_planned_ranks = 1 << 20;

/// Question to a planner about one recipe: sequence length, number of ranks, and objective.
struct PlanQuestion {
  int64_t context;
  /// Number of ranks. The plan assumes more nodes of the same kind if a described machine has fewer ranks. The plan has
  /// no layouts if a measured cluster has fewer ranks.
  int64_t ranks;
  Objective objective = Objective::time;
  size_t wanted = 10;
  bool any_memory = false;  // true: the plan ignores the memory limit
};
/// Function that answers a question with search_plan().
using PlanAt = std::function<Plan(const PlanQuestion&)>;

/// A planned layout, and the sequence length and number of ranks for which it was planned.
struct FittingLayout {
  int64_t context, ranks;
  PlannedLayout layout;
};

/// The layout with the least memory for one sequence length and one number of ranks, if a search found no layout that
/// fits.
struct Shortfall {
  std::optional<FittingLayout> least;  // found layout with the least memory; none if no layout is legal
  double memory;                       // limit of a rank's tensors, in bytes

  /// Returns the bytes that a rank lacks for `least`, which must be set.
  double missing() const { return least->layout.counted_memory() - memory; }
  /// True if `least` is set and fits into `memory`.
  bool fits() const { return least && missing() <= 0; }
};
/// Searches for the layout with the least memory. `memory` is the limit of a rank's tensors in bytes (Plan::memory).
/// This search excludes no layout by a rough estimate, so it can find a fitting layout that a search within `memory`
/// misses.
Shortfall shortfall(const PlanAt& plan_at, int64_t context, int64_t ranks, double memory);

/// Doubles the number of ranks of `shortfall` up to six times, at most to max_planned_ranks. Returns the first layout
/// that fits; none if no layout fits. Skips rank counts for which the memory of `shortfall.least` would not fit even if
/// this memory were spread evenly over all ranks.
std::optional<FittingLayout> with_more_ranks(const PlanAt& plan_at, const Shortfall& shortfall);
/// Halves the sequence length of `shortfall` while the length is even, down to 1024 tokens. Returns a layout for the
/// first length with which a layout fits on the same number of ranks; none if no layout fits.
std::optional<FittingLayout> with_shorter_context(const PlanAt& plan_at, const Shortfall& shortfall);

/// Result for one sequence length.
struct PathPoint {
  int64_t context, ranks;
  std::optional<PlannedLayout> layout;  // best layout; none if no layout fits
  std::optional<Shortfall> shortfall;   // shortfall on the largest number of ranks; set if no layout fits
};
struct PathRequest {
  std::span<const int64_t> lengths;  // sequence lengths in tokens, ascending, at least one
  int64_t ranks, max_ranks;          // ranks to try first for the first length; limit of ranks for all lengths
  Objective objective = Objective::time;
};
/// Returns the best layout of each length, in order. Doubles the ranks, up to `max_ranks`, until a layout fits. The
/// next length begins with these ranks. Only the shortfalls of longer lengths are computed if no layout fits a length,
/// because longer lengths need even more memory. The layout of a shortfall becomes the best layout of its length if
/// this layout fits after all. The next length is then planned in full. The result has one point if no layout fits the
/// first length.
std::vector<PathPoint> expansion_path(const PlanAt& plan_at, const PathRequest& request);

}  // namespace hexad::plan
