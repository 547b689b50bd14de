// The timeline of some steps of a run: the recipe's profile.steps, and the step of schedule.trace.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"
#include "tools/train/model/pass_recorder.h"
#include "tools/train/recipe/step_range.h"

namespace hexad::train {

/// Rows of each rank in trace.json.gz: "host", the parts of the step as the rank's thread comes to them, and in these
/// what it waits for; on a device "device", the same parts as its compute queue does; the lanes of the MoE layers'
/// passes; the operations of every class of communication; and the memory in use, by category.
class RunTrace {
 public:
  /// `say` is told, on rank 0, what was written or why not. All else outlives the trace.
  RunTrace(const Recipe& recipe, ModelInstance& instance, const comm::ProcessGroup& world,
           std::function<void(const std::string&)> say, std::function<void(const std::string&)> warn);

  /// Before the work of a step. Collective. What came between steps (evaluation, saving) is that of the step before.
  void begin_step(int64_t step);
  /// After the last step. Collective.
  void end();
  /// On rank 0, in a recorded step: more to be written, of all ranks. `begin`: seconds of rank 0's base::now() at which
  /// these events have their zero.
  void add(std::vector<telemetry::TraceEvent> events, double begin);

 private:
  bool wanted(int64_t step) const;
  void start();
  /// Its passes become events.
  void close_step();
  void write();

  const Recipe& recipe_;
  ModelInstance& instance_;
  const comm::ProcessGroup& world_;
  const std::function<void(const std::string&)> say_, warn_;
  const std::optional<StepRange> steps_;
  std::optional<PassRecorder> passes_;  // of the step that is recorded now
  std::optional<device::Span> step_;
  std::optional<double> zero_;    // of the trace, on this rank's clock
  telemetry::TraceRecords mine_;  // of the steps that are recorded now: of passes
  telemetry::TraceRecords all_;   // rank 0: of all ranks
};

}  // namespace hexad::train
