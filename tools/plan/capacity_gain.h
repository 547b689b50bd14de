// Layouts that would become possible with more memory for each rank, or with twice the ranks.
#pragma once

#include <optional>
#include <vector>

#include "tools/plan/layout_changes.h"
#include "tools/plan/state_bound.h"

namespace hexad::plan {

/// Factor by which the memory of a rank is multiplied for CapacityGains::more_memory.
inline constexpr double memory_more = 1.25;

/// Selects the layouts of `composed` that seem to need at most memory_more times `memory` bytes. Returns at most three
/// of them: the layouts with the shortest composed steps.
std::vector<PlannedLayout> within_more_memory(const std::vector<PlannedLayout>& composed, double memory);

/// Returns the layouts whose state alone needs more than `memory` bytes on a rank, but at most memory_more times
/// `memory`. Considers `layouts` and their variants(). compose_layouts() does not compose such layouts.
std::vector<PlanCandidate> with_larger_state(const std::vector<PlanCandidate>& layouts, const StateBound& state,
                                             int64_t world, double memory);

/// Returns the layouts of `candidates` that differ from `best` in at most one of the sizes tp, cp, pp and ep.
std::vector<PlanCandidate> neighbours_of(const PlanCandidate& best, std::vector<PlanCandidate> candidates);

/// Tries each layout of `excluded` with the MoE schedule, the pipeline overlap and the bucket size of `best`. The
/// layout keeps its own settings if the settings of `best` are illegal in this layout. Estimates the memory of at most
/// three layouts, in the order of their composed steps. Simulates the first layout that needs more than site.memory,
/// but at most memory_more times site.memory, and whose offloaded tensors fit into host memory. Returns this layout if
/// its step is shorter than the step of `best`; otherwise none.
std::optional<PlannedLayout> with_more_memory(const PlannedLayout& best, std::vector<PlannedLayout> excluded,
                                              const PlanSite& site);

/// Doubles dp, tp, cp or pp of `best`, in each case with the same ep and with twice the ep. Reduces the size of
/// micro-batches if the batch requires it. Composes the steps of these layouts, and estimates the memory of at most
/// three layouts, in the order of their composed steps. Simulates the first layout that fits into `memory` bytes, and
/// returns this layout. Returns none if the cluster has fewer than 2 x request.world ranks, or if no layout fits.
std::optional<PlannedLayout> on_twice_the_ranks(const PlannedLayout& best, const config::Document& document,
                                                const train::Extensions& extensions, const Cluster& cluster,
                                                PlanRequest request, double memory, SharedCosts& costs);

}  // namespace hexad::plan
