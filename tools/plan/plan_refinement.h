// Third stage of a plan's search: the best layouts with other schedules, orders of axes, overlap and offload.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "tools/plan/layout_changes.h"

namespace hexad::plan {

/// Sets the step of the layout, without its records. Throws Error(usage) if the cluster lacks a rate.
void simulate(PlannedLayout& layout, const PlanSite& site);

/// Searches for changes that improve a layout. A change is tried on the complete layout: its memory is estimated and
/// its step is simulated, the second only if the first permits the change.
class PlanRefinement {
 public:
  /// `site` outlives the object.
  explicit PlanRefinement(const PlanSite& site) : site_(site) {}

  /// Returns the layout with the changes that make it better, found key by key until no change does or `most` changes
  /// have been tried. Objective::memory needs only the layout's memory, the others also its step. The result fits if
  /// the layout does, and is never worse.
  PlannedLayout refined(PlannedLayout layout, int64_t most);
  /// Refines the first layouts, at most three.
  void refine_first(std::vector<PlannedLayout>& layouts, size_t count);

  /// Returns the layout with the first offload of with_more_offloaded() that makes it fit; none if none does.
  std::optional<PlannedLayout> made_to_fit(PlannedLayout layout);
  /// Refines the smallest layouts and returns those that then fit. The objective of the site is memory.
  std::vector<PlannedLayout> smallest_that_fit(std::vector<PlannedLayout> layouts);

  /// Returns the number of changes tried.
  int64_t changes() const { return changes_; }
  /// Returns the bytes of the layout that needed least in smallest_that_fit().
  double least_memory() const { return least_memory_; }

 private:
  bool improves(PlannedLayout& best, const train::Recipe& changed);
  bool simulated(PlannedLayout& layout) const;
  void estimate(PlannedLayout& layout) const;
  bool offload_fits(const PlannedLayout& layout) const { return layout.memory.offloaded <= site_.host_memory; }
  bool fits(const PlannedLayout& layout) const { return layout.memory.total <= site_.memory && offload_fits(layout); }

  const PlanSite& site_;
  int64_t changes_ = 0;
  double least_memory_ = std::numeric_limits<double>::infinity();
};

/// Makes the plan's best layouts better, orders them, and sets their number of changes. If there are none, adds the
/// smallest of `too_large` that fit with changes that save memory, else those that seem shorter than the best and fit
/// if offloaded. Tries at most 39 changes, or 66 if no layout fits at first.
void refine(Plan& plan, std::vector<PlannedLayout> too_large, const PlanSite& site);

}  // namespace hexad::plan
