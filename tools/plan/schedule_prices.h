// Predicted times of the schedules of a recipe's MoE layers. The work of one rank of each class (LayerGraphs) is
// recorded on the meta device. The simulator prices the graphs of this rank, and the rates price the rank's other work.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tools/plan/routing_model.h"
#include "tools/plan/schedule_trace.h"
#include "tools/plan/within_memory.h"

namespace hexad::plan {

/// Returns the numbers of chunks to try in `s`, in ascending order. The number of chunks of `s` must be open. With
/// memory_reuse: auto, the first number is the smallest number that the memory limit permits.
std::vector<int64_t> chunk_numbers(const train::Recipe& recipe, const train::Extensions& extensions, MemoryNeeds& needs,
                                   const moe::MoeSchedule& s);

struct ScheduleCandidate {
  moe::MoeSchedule schedule;
  /// Seconds of one MoE layer's forward and backward on the slowest rank, with the work outside of the graphs
  /// (LayerWork).
  double predicted = 0;
  /// Digest of the work of all classes of ranks (LayerWork). Schedules with the same digest do the same work in this
  /// layout.
  std::string work{};
  /// Links that were not measured, so that `predicted` uses Rates::other_links for these links
  /// (LayerWork::unmeasured_links()).
  std::set<std::string> assumed_links{};
  std::vector<double> measured{};  // measured seconds, by trial

  /// Returns the median of `measured`; 0 before the first trial.
  double measured_seconds() const;
};

/// Returns the assumed links of all `candidates`, sorted, each once.
std::vector<std::string> assumed_links(std::span<const ScheduleCandidate> candidates);

/// Returns the number of tokens of a micro-batch that reach an MoE layer of this rank.
int64_t rows_of_layer(const train::Recipe& recipe);

/// Predicts `schedule` for evenly loaded experts. Collective over `world`, like all predicting functions. Needs no real
/// model: a model of one layer runs on the meta device. Up to 64 ranks are simulated together. In larger worlds, or if
/// the collectives of ranks differ, each rank is simulated alone, so no rank waits for another rank.
ScheduleCandidate predicted_schedule(const train::Recipe& recipe, const train::Extensions& extensions,
                                     const Predictor& predictor, const comm::ProcessGroup& world,
                                     const moe::MoeSchedule& schedule);
/// Predicts each of `schedules`, in their order, for a load of the layer's experts.
std::vector<ScheduleCandidate> predicted_each(const train::Recipe& recipe, const train::Extensions& extensions,
                                              const Predictor& predictor, const comm::ProcessGroup& world,
                                              const std::vector<moe::MoeSchedule>& schedules, const RoutingLoad& load);

/// Predicts the `allowed` schedules. Up to 200 schedules are all predicted, in their order. If there are more, first
/// predicts the schedules with the usual value of every late choice (moe::ChoiceFacts::late). Examples of late choices
/// are rows, esp_exchange, order and gemms. Then predicts the eight fastest of these schedules with all other values of
/// the late choices. Returns only one of several schedules that do the same work and have no open number of chunks: the
/// recipe's own schedule, or else the first.
std::vector<ScheduleCandidate> predicted_schedules(const train::Recipe& recipe, const train::Extensions& extensions,
                                                   const Predictor& predictor, const comm::ProcessGroup& world,
                                                   const std::vector<moe::MoeSchedule>& allowed,
                                                   const RoutingLoad& load = RoutingLoad::even);

/// Returns the measured counterpart of ScheduleCandidate::predicted, in seconds, for a step on this rank: the mean
/// forward plus the mean backward of a layer, over all layers and micro-batches. Under Parm's S1, also adds the mean
/// gathering of gradients. Counts the exchanges and kernels outside of the passes.
double layer_seconds(const std::vector<PassRecorder::LayerTime>& layers);

}  // namespace hexad::plan
