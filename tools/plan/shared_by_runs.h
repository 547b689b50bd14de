// Results that several runs on the meta device have in common, so that only one of the runs computes them.
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "framework/device/meta/known_results.h"
#include "layers/model_size.h"
#include "parallel/pp/checked_schedules.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Results that runs (RunOnMeta) on the same thread share: checked schedules of pipelines, choices of experts, results
/// of routing kernels, and FLOPs of models. The runs may have different recipes. For example, all ranks of a layout, or
/// all layouts of a search, may share one object. Sharing saves time if the runs need equal results. The results of
/// routing kernels take at most KnownResults::usual_bytes. The object also keeps one schedule for each pipeline and
/// number of micro-batches. It keeps one choice of experts for each load and number of slots. Under uneven loads, each
/// ep rank has its own choice. Under given loads, each layer also has its own choice.
struct SharedByRuns {
  /// Returns choose_experts() with these arguments. The choices are made once for all runs.
  device::MetaRun::Choose choose(const RoutingLoad& load, int rank, int ranks, std::optional<double> capacity_factor);
  /// Returns train::with_stage_split() of the recipe. The FLOPs of each model are counted once. `registry` must be the
  /// same in all calls.
  train::Recipe divided(const train::Recipe& recipe, const layers::Registry& registry);
  /// Returns the number of models whose FLOPs were counted.
  int64_t counted_models() const { return std::ssize(flops_); }

  pp::CheckedSchedules schedules;
  device::KnownResults results;
  int64_t runs = 0;  // number of runs that have used this object

 private:
  // Kind of load, given shares (null: none), rank, number of ranks, and capacity factor. A router keeps the shares
  // alive.
  using Key = std::tuple<RoutingLoad::Kind, const ExpertShares*, int, int, std::optional<double>>;
  std::map<Key, std::shared_ptr<const device::MetaRun::Choose>> routers_;
  std::map<std::string, layers::PartFlops> flops_;  // FLOPs of each model, by the YAML text of the model
};

}  // namespace hexad::plan
