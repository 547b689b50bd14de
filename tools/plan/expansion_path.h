// Layouts for growing sequences, and what a cluster lacks where none fits.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Largest number of ranks that is planned for.
inline constexpr int64_t most_planned_ranks = 1 << 20;

/// A plan of one recipe with another length, number of ranks or memory.
struct PlanQuestion {
  int64_t context;
  int64_t ranks;  // may be more than the cluster has: then it has more nodes of the same kind
  Objective objective = Objective::time;
  size_t wanted = 10;
  bool any_memory = false;  // true: every layout fits
};
/// Searches the recipe's layouts (search_plan).
using PlanAt = std::function<Plan(const PlanQuestion&)>;

/// A layout at a length.
struct FittingLayout {
  int64_t context, ranks;
  PlannedLayout layout;
};

/// Result of a search in which no layout fits.
struct Shortfall {
  std::optional<FittingLayout> least;  // the layout of least memory that was found; none if no layout is legal
  double memory;                       // bytes that tensors of a rank may take

  /// Returns the bytes that a rank lacks. There must be a layout.
  double missing() const { return least->layout.memory.total - memory; }
};
/// Searches the layout of least memory. `memory`: the bytes that tensors of a rank may take (Plan::memory).
Shortfall shortfall(const PlanAt& plan_at, int64_t context, int64_t ranks, double memory);

/// Returns the layout that fits on the fewest ranks, of those of `lack` doubled up to six times; none if none fits. A
/// number on which the bytes of `lack`, spread over all ranks, would not fit is not tried.
std::optional<FittingLayout> with_more_ranks(const PlanAt& plan_at, const Shortfall& lack);
/// Returns the layout for the longest sequence, of the length of `lack` halved while it is at least 1024 tokens, that
/// fits as many ranks; none if none does.
std::optional<FittingLayout> with_shorter_context(const PlanAt& plan_at, const Shortfall& lack);

/// A length on the path.
struct PathPoint {
  int64_t context, ranks;
  std::optional<PlannedLayout> layout;  // the best one; none if no layout fits
  std::optional<Shortfall> lack;        // if none fits, on the most ranks
};
struct PathRequest {
  std::span<const int64_t> lengths;  // ascending, at least one
  int64_t ranks, most_ranks;         // of the first length; of any
  Objective objective = Objective::time;
};
/// Returns the best layout of each length, in order. Where no layout fits, ranks are doubled, up to `most_ranks`.
/// Memory grows with the length, so lengths after one that fits nowhere are only searched for what they lack. If the
/// first length fits nowhere, its point is the only one.
std::vector<PathPoint> expansion_path(const PlanAt& plan_at, const PathRequest& request);

}  // namespace hexad::plan
