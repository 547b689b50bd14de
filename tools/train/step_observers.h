// Observers of the steps of a run besides the loop: faults for tests, trace, adviser, replica check, metrics.
#pragma once

#include <memory>

#include "tools/train/report/training_directory.h"
#include "tools/train/schedule_adviser.h"
#include "tools/train/step_meter.h"

namespace hexad::train {

/// Steps that changed no weights.
class SkippedSteps {
 public:
  /// Warns of a step that was skipped, and of the first one without targets.
  void note(int64_t step, const StepResult& result, const TrainingDirectory& directory);
  /// Throws Error(numeric) if `most` or more steps in a row were skipped, up to `step`.
  void require_fewer(int64_t most, int64_t step) const;

 private:
  int64_t in_a_row_ = 0;
  bool told_of_no_targets_ = false;
};

/// The observers are told of each step in one order on all ranks, because most of them communicate.
class StepObservers {
 public:
  /// Collective. An empty `make_adviser`: the recipe's schedule stands. All references outlive the observers.
  StepObservers(const Recipe& recipe, TrainingState& state, const comm::World& world,
                const TrainingDirectory& directory, std::unique_ptr<StepMeter> meter, const MakeAdviser& make_adviser);

  /// Before the work of `step`. Collective. Throws Error(usage) if another job has taken the run directory over.
  void begin_step(int64_t step);
  /// After the step with `result`, which the state's progress counts; its metrics go to `sinks`. Collective. Throws
  /// Error(numeric) if replicas differ or too many steps were skipped.
  void end_step(const StepResult& result, telemetry::MetricsSink& sinks);
  /// After the last step. Collective.
  void end() { trace_.end(); }

  RankClock& clock() { return meter_->clock(); }
  /// Null if there is none.
  const ScheduleAdviser* adviser() const { return adviser_.get(); }

 private:
  void check_replicas(int64_t step);

  const Recipe& recipe_;
  TrainingState& state_;
  const comm::World& world_;
  const TrainingDirectory& directory_;
  const std::unique_ptr<StepMeter> meter_;
  RunTrace trace_;
  std::unique_ptr<ScheduleAdviser> adviser_;
  SkippedSteps skipped_;
};

}  // namespace hexad::train
