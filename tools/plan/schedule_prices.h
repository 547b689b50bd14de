// Predicted times of the schedules of a recipe's MoE layers: the simulator on the graphs of all ranks.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/schedule_trace.h"
#include "tools/plan/within_memory.h"

namespace hexad::plan {

/// Numbers of chunks that a schedule may have.
struct ChunksRange {
  int64_t fewest, most;
  bool operator==(const ChunksRange&) const = default;
};
/// The range for `s`, whose number of chunks is open; under memory_reuse: auto at least as many as the
/// memory limit asks for.
ChunksRange chunks_range(const train::Recipe& recipe, const train::Extensions& extensions, MemoryNeeds& needs,
                         const moe::MoeSchedule& s);

struct ScheduleCandidate {
  moe::MoeSchedule schedule;
  /// Seconds of one MoE layer's forward and backward on the slowest rank.
  double predicted = 0;
  /// Digest of all ranks' graphs: schedules with the same do the same in this layout.
  std::string graphs{};
  std::vector<double> measured{};  // the same, by trial

  /// The median; 0 before the first trial.
  double measured_seconds() const;
};

/// Tokens of a micro-batch, as they reach an MoE layer of this rank.
int64_t rows_of_layer(const train::Recipe& recipe);

/// Sets `schedule` and predicts it. Collective over `world`, as are all that predict.
ScheduleCandidate predicted_schedule(const train::Recipe& recipe, train::ModelInstance& instance,
                                     const Predictor& predictor, const comm::ProcessGroup& world,
                                     const moe::MoeSchedule& schedule);

/// All `allowed` schedules, in their order. Of those whose graphs are the same, and whose number of chunks is not open,
/// the first stands for all, or the recipe's own. Where they are hundreds:
/// first those that have the usual value of every late choice (moe::ChoiceFacts::late: rows, ESP exchange, order), then
/// the fastest of these with every other. Which one is set in the model afterwards is not defined.
std::vector<ScheduleCandidate> predicted_schedules(const train::Recipe& recipe, train::ModelInstance& instance,
                                                   const Predictor& predictor, const comm::ProcessGroup& world,
                                                   const std::vector<moe::MoeSchedule>& allowed);

/// Seconds that ScheduleCandidate::predicted predicts, measured in a step's passes on this rank: means over layers and
/// micro-batches.
double measured_seconds(const std::vector<PassRecorder::Recording>& passes);

}  // namespace hexad::plan
