// Results that runs on the meta device share because they are equal.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "framework/device/meta/known_results.h"
#include "parallel/pp/checked_schedules.h"
#include "tools/plan/routing_model.h"

namespace hexad::plan {

/// Results shared by runs (RunOnMeta) on the same thread, such as those of all ranks of a layout: checked schedules of
/// pipelines, choices of experts, and results of routing kernels. Runs of any recipes may share them. Sharing saves
/// time if the runs need equal results.
struct SharedByRuns {
  /// Returns choose_experts() with these arguments. Its choices are made once for all runs.
  device::MetaRun::Choose choose(const RoutingLoad& load, int rank, int ranks, std::optional<double> capacity_factor);

  pp::CheckedSchedules schedules;
  device::KnownResults results;

 private:
  // Kind of load, given shares (null: none), rank, ranks and capacity factor. A router keeps the shares alive.
  using Key = std::tuple<RoutingLoad::Kind, const ExpertShares*, int, int, std::optional<double>>;
  std::map<Key, std::shared_ptr<const device::MetaRun::Choose>> routers_;
};

}  // namespace hexad::plan
