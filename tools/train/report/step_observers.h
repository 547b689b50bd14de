// Components that run before and after each training step: faults for tests, trace, adviser, replica check, metrics.
#pragma once

#include <memory>

#include "tools/train/report/schedule_adviser.h"
#include "tools/train/report/step_meter.h"
#include "tools/train/report/training_directory.h"

namespace hexad::train {

/// Counts consecutive skipped steps, over all stages of a start.
class SkippedSteps {
 public:
  /// Counts the step if it was skipped; otherwise restarts the count. Warns about every skipped step, and about the
  /// first step without targets.
  void note(int64_t step, const StepResult& result, const TrainingDirectory& directory);
  /// Throws Error(numeric) if `most` or more consecutive steps up to `step` were skipped.
  void require_fewer(int64_t most, int64_t step) const;

 private:
  int64_t consecutive_skips_ = 0;
  bool warned_of_no_targets_ = false;
};

/// Calls the observers at each step, in the same order on all ranks, because most observers communicate.
class StepObservers {
 public:
  /// Makes the observers of a stage. If `make_adviser` is empty, the run uses the recipe's schedule unchanged.
  /// `skipped` holds the count of earlier stages. All references must outlive the observers. Collective.
  StepObservers(const Recipe& recipe, TrainingState& state, const comm::World& world,
                const TrainingDirectory& directory, SkippedSteps& skipped, std::unique_ptr<StepMeter> meter,
                const MakeAdviser& make_adviser);

  /// Notifies the observers before the work of `step`. Collective. Throws Error(usage) on rank 0 if another job has
  /// taken over the run directory.
  void begin_step(int64_t step);
  /// Notifies the observers after a step, which the state's progress must already count. Sends the step's metrics to
  /// `sinks`. Throws Error(numeric) if replicas differ or too many consecutive steps were skipped. Collective.
  void end_step(const StepResult& result, telemetry::MetricsSink& sinks);
  /// Ends the trace after the last step. Collective.
  void end() { trace_.end(); }

  RankClock& clock() { return meter_->clock(); }
  /// Returns the adviser, or null.
  const ScheduleAdviser* adviser() const { return adviser_.get(); }

 private:
  void check_replicas(int64_t step);
  /// Warns once if windows could not be allocated or enlarged (schedule.moe.all_to_all: window).
  void note_refused_windows(int64_t step) const;

  const Recipe& recipe_;
  TrainingState& state_;
  const comm::World& world_;
  const TrainingDirectory& directory_;
  SkippedSteps& skipped_;
  const std::unique_ptr<StepMeter> meter_;
  RunTrace trace_;
  std::unique_ptr<ScheduleAdviser> adviser_;
};

}  // namespace hexad::train
