// Timeline of the steps that the recipe selects with profile.steps and schedule.trace.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/telemetry/trace.h"
#include "parallel/comm/process_group.h"
#include "tools/train/model/pass_recorder.h"
#include "tools/train/recipe/step_range.h"

namespace hexad::train {

/// Writes trace.json.gz, with these rows for each rank:
/// - "host": phases of the step in the rank's thread, and the thread's waits inside these phases;
/// - "device" (if kernels do not run on the host): the same phases in the device's compute queue;
/// - the lanes of the MoE layers' passes;
/// - the operations of every class of communication;
/// - the memory in use, by category.
class RunTrace {
 public:
  /// Makes the trace of a run. On rank 0, `info` receives the path of the trace, or `warn` receives the reason why the
  /// trace cannot be written. All other arguments must outlive the object.
  RunTrace(const Recipe& recipe, ModelInstance& instance, const comm::ProcessGroup& world,
           std::function<void(const std::string&)> info, std::function<void(const std::string&)> warn);

  /// Begins a step. Events after a step, such as evaluations and saves, are recorded if that step is recorded.
  /// Collective.
  void begin_step(int64_t step);
  /// Ends the recording, if there is one, and writes the trace on rank 0. Called before each step that is not recorded,
  /// and after the last step. Collective.
  void end();
  /// Adds events of all ranks to the trace. Call it on rank 0 during a recorded step. The times of events are relative
  /// to `begin`, which is a time of rank 0's base::now().
  void add(std::vector<telemetry::TraceEvent> events, double begin);

 private:
  bool wanted(int64_t step) const;
  void start();
  /// Ends the step and converts its passes to events.
  void close_step();
  void write();

  const Recipe& recipe_;
  ModelInstance& instance_;
  const comm::ProcessGroup& world_;
  const std::function<void(const std::string&)> info_, warn_;
  const std::optional<StepRange> steps_;
  std::optional<PassRecorder> passes_;  // MoE passes of the current step, if this object records them
  std::optional<device::Span> step_;
  std::optional<double> zero_;           // start of the trace, on this rank's clock
  telemetry::TraceRecords own_records_;  // MoE passes of this rank that all_ does not have yet
  telemetry::TraceRecords all_;          // on rank 0: records of all ranks
};

}  // namespace hexad::train
