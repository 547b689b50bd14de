// Third stage of a plan's search. It varies schedules, kinds of context parallelism, orders of axes, buckets, overlap
// and offload of the best layouts.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/plan/layout_changes.h"

namespace hexad::plan {

/// Predicts the step of the layout and stores the forecast in `layout`, without StepForecast::records and
/// StepForecast::simulated, which are large. Throws Error(usage) if the cluster lacks a rate.
void simulate(PlannedLayout& layout, const PlanSite& site);
/// Simulates the step like simulate(). Returns false if the step cannot be predicted, for example because the cluster
/// lacks the rate of offloading.
bool is_simulated(PlannedLayout& layout, const PlanSite& site);

/// Searches for changes that improve a layout. For each change, computes the quantity that the objective minimizes: the
/// memory of the changed layout, or its simulated step. Computes the other quantity only if the first quantity
/// improves.
class PlanRefinement {
 public:
  /// Makes a refinement. `site` must outlive the object.
  explicit PlanRefinement(const PlanSite& site) : site_(site) {}

  /// Returns the layout with changes that improve it. Tries key by key, until no change improves the layout or `most`
  /// changes have been tried. For a change inside layers, first compares micro-batches of one period of layers. Rejects
  /// the change if its micro-batch is not shorter. Skips this comparison in three cases: the objective is memory, the
  /// pipeline of the layout overlaps micro-batches, or a micro-batch cannot be predicted. `layout` must have its memory
  /// and, except under Objective::memory, its step. The result is never worse than `layout`, and fits if `layout` fits.
  PlannedLayout refined(PlannedLayout layout, int64_t most);
  /// Refines the first `count` layouts, but at most three. Does not try changes that result in another layout of
  /// `layouts`, because the results of these layouts are known.
  void refine_first(std::vector<PlannedLayout>& layouts, size_t count);

  /// Tries the changes of with_more_offloaded(). Returns the first changed layout that fits and can be simulated; none
  /// if there is no such layout.
  std::optional<PlannedLayout> made_to_fit(PlannedLayout layout);
  /// Estimates the six layouts with the least composed memory. Refines three of these six layouts: the layouts with the
  /// least estimated memory. Returns each of the six layouts that then fits and can be simulated. Requires a site with
  /// Objective::memory.
  std::vector<PlannedLayout> smallest_that_fit(std::vector<PlannedLayout> layouts);

  /// Returns the number of changes tried.
  int64_t changes() const { return changes_; }
  /// Returns the number of legal changes of refined layouts that were not tried because of a limit.
  int64_t untried_changes() const { return untried_changes_; }
  /// Returns the number of tried layouts that were refused only because the host's memory does not hold their offloaded
  /// tensors.
  int64_t too_large_for_host() const { return too_large_for_host_; }
  /// Returns the least memory of all layouts that smallest_that_fit() estimated, in bytes; infinite if there are none.
  double least_memory() const { return least_memory_; }

 private:
  using Settings = std::vector<std::pair<std::string, std::string>>;
  bool improves(PlannedLayout& best, const train::Recipe& changed);
  bool may_be_faster(const PlannedLayout& best, const train::Recipe& changed);
  std::optional<double> micro_batch(const train::Recipe& recipe);
  bool simulated(PlannedLayout& layout) const { return is_simulated(layout, site_); }
  void estimate(PlannedLayout& layout, double limit = std::numeric_limits<double>::infinity()) const;
  bool offload_fits(const PlannedLayout& layout) const { return layout.memory.offloaded <= site_.host_memory; }
  bool fits_and_is_simulated(PlannedLayout& layout);

  const PlanSite& site_;
  int64_t changes_ = 0, untried_changes_ = 0, too_large_for_host_ = 0;
  // Seconds of a micro-batch of one period of layers, by settings of the layout; none: unknown.
  std::map<Settings, std::optional<double>> micro_batches_;
  std::set<Settings> known_;  // layouts of refine_first()
  double least_memory_ = std::numeric_limits<double>::infinity();
};

/// Refines and sorts the plan's best layouts, and counts the changes. Tries at most 45 changes, or 78 if the plan
/// begins without a layout.
/// First adds layouts:
/// - if the plan has no layout: the smallest layouts of `too_large` that fit with changes that save memory
/// - if the plan has a layout and the objective is not memory: layouts of `too_large` that fit with offload. Their
///   steps seem shorter than the step of the best layout
/// - `own`, the recipe's own layout, if it is set
void refine(Plan& plan, std::vector<PlannedLayout> too_large, std::optional<PlannedLayout> own, const PlanSite& site);

}  // namespace hexad::plan
