// Timeline of some steps of a run: the steps of the recipe's profile.steps, and the step of schedule.trace.
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
/// - "host": parts of the step in the rank's thread, and the thread's waits inside these parts;
/// - "device" (if the rank has a device): the same parts in its compute queue;
/// - the lanes of the MoE layers' passes;
/// - the operations of every class of communication;
/// - the memory in use, by category.
class RunTrace {
 public:
  /// Makes the trace. On rank 0, `say` receives the path of the trace, and `warn` the reason if it cannot be written.
  /// All other arguments outlive the object.
  RunTrace(const Recipe& recipe, ModelInstance& instance, const comm::ProcessGroup& world,
           std::function<void(const std::string&)> say, std::function<void(const std::string&)> warn);

  /// Begins a step, before its work. Collective. Events between steps, such as evaluations and saves, belong to the
  /// previous step.
  void begin_step(int64_t step);
  /// Ends the recording after the last step. Collective.
  void end();
  /// Adds events of all ranks to the trace. Call it on rank 0 in a recorded step. The times of events count from
  /// `begin`, in seconds of rank 0's base::now().
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
  const std::function<void(const std::string&)> say_, warn_;
  const std::optional<StepRange> steps_;
  std::optional<PassRecorder> passes_;  // passes of the step that is being recorded
  std::optional<device::Span> step_;
  std::optional<double> zero_;    // start of the trace, on this rank's clock
  telemetry::TraceRecords mine_;  // passes of the steps that are being recorded
  telemetry::TraceRecords all_;   // on rank 0: records of all ranks
};

}  // namespace hexad::train
