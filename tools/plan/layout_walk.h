// Path of legal layouts from one layout to another. One key after another changes, so that a reader sees the cost of
// each change.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plan/plan_space.h"

namespace hexad::plan {

/// Predicted step time and memory of a layout.
struct LayoutPrice {
  double seconds;  // duration of a step
  double memory;   // bytes of the rank that needs the most
};

struct PricedLayout {
  PlanCandidate candidate;
  LayoutPrice price;
};

/// Number of ranks of a walk's layouts, and the functions that decide about the layouts.
struct WalkSite {
  int64_t world;
  std::function<bool(const train::Recipe&)> is_legal;
  /// Returns the price of a legal layout. Returns none if the walk must not contain the layout, for example because the
  /// layout is too large.
  std::function<std::optional<LayoutPrice>(const train::Recipe&)> price;
};

/// One layout of a walk.
struct WalkStep {
  PricedLayout layout;
  /// Effective settings that differ from the previous layout, the changed key first. The number of data-parallel ranks
  /// is the setting "dp". The list is empty for the first layout.
  std::vector<ChangedSetting> changed;

  /// Returns a text like "parallel.tp: 1 -> 2, together with dp: 8 -> 4".
  std::string changes_text() const;
};

/// Returns the keys of PlanCandidate::settings() in the order in which a walk changes them: sizes of groups, pipeline,
/// zero, recomputation, offload, micro-batch, schedule of MoE layers, buckets, and order of the axes.
std::vector<std::string_view> walk_order();

/// Returns a walk from `from` to `to`. The first and the last step have the given layouts and prices. The walk has one
/// step if both layouts have the same effect. The walk leaves out a layout that is illegal or has no price. The change
/// of this layout is then in the same step as the next change. A change without effect adds no step. A setting may have
/// no effect in `from`, such as the kind of pipeline of one stage. This setting changes together with the key that
/// gives it an effect. Open choices of schedule.moe count as their values before the program chooses.
std::vector<WalkStep> walk_layouts(const PricedLayout& from, const PricedLayout& to, const WalkSite& site);

}  // namespace hexad::plan
