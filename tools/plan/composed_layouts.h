// First stage of the search for a layout: composes the steps and the memory of all legal layouts.
#pragma once

#include <limits>
#include <vector>

#include "tools/plan/plan_search.h"
#include "tools/plan/state_bound.h"

namespace hexad::plan {

/// Number of layouts that are simulated for each requested layout.
constexpr size_t simulated_per_wanted = 2;

/// Factor by which composed memory may exceed the estimated memory. A layout seems too large if its composed memory
/// exceeds this multiple of the limit.
constexpr double composed_error = 1.15;

/// Layouts of a search, grouped by their composed estimates.
struct ComposedLayouts {
  std::vector<PlannedLayout> promising;  // layouts that seem to fit, best first
  std::vector<PlannedLayout> too_large;  // layouts that seem too large, but may fit with offload
  std::vector<PlanCandidate> needless;   // layouts that save memory without need; see compose_layouts()
  int64_t needless_variants = 0;         // number of needless variants that are not in `needless`
  int64_t too_large_count = 0;           // layouts that seem too large, including layouts that are only counted
  // Least memory in bytes of the layouts that exceed the limit; infinite if there are no such layouts. This is the
  // composed memory, or a lower bound of the memory of layouts that are only counted.
  double least_memory = std::numeric_limits<double>::infinity();
};

/// Composes the steps of the layouts `legal` and of their variants() on request.world ranks. `memory` is the limit of a
/// rank's tensors in bytes. `state` gives lower bounds of the memory. Layouts whose lower bound exceeds the limit, and
/// layouts that are far too large even with more recomputation, are only counted.
///
/// A layout that recomputes is needless if the same layout with less recomputation certainly fits, because
/// recomputation makes the step longer. A layout with zero 2 is needless if the same layout with zero 1, and no more
/// recomputation, certainly fits. All variants of a layout are also needless if simulated_per_wanted * request.wanted
/// other layouts are at least as fast as this layout. These rules do not apply under Objective::memory, or if
/// activations are offloaded. Under Objective::memory, a layout is omitted if it certainly needs more memory than
/// max(8, simulated_per_wanted * request.wanted) other layouts. The layout's lower bound, or the composed memory of the
/// same layout with more recomputation, makes this certain.
ComposedLayouts compose_layouts(std::vector<PlanCandidate> legal, const StateBound& state, LayerCosts& costs,
                                double memory, const PlanRequest& request);

/// Returns all candidates with composed estimates, best first.
std::vector<PlannedLayout> compose_all(std::vector<PlanCandidate> candidates, LayerCosts& costs, Objective objective);

}  // namespace hexad::plan
