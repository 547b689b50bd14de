// The training run: the work of `hexad train` between reading the recipe and exiting.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "framework/data/training_data.h"
#include "framework/telemetry/metrics.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/process/save_patience.h"
#include "tools/train/report/run_history.h"
#include "tools/train/report/samples.h"
#include "tools/train/report/training_directory.h"
#include "tools/train/step_observers.h"
#include "tools/train/training_state.h"

namespace hexad::train {

using base::ExitCode;

class Trainer {
 public:
  /// Opens the run directory, the data, the model, and the checkpoint to resume from. Reports every error in the
  /// recipe's paths before step 0. Collective.
  Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, const MakeAdviser& make_adviser = {});

  /// Trains to the last step. Returns done, or preempted if a signal ended the run (state saved). Otherwise throws
  /// Error.
  ExitCode run();

  /// Sets the estimated seconds of a save, on rank 0 before run(). Warns if mpirun leaves less time than that when it
  /// ends the job.
  void expect_save(double seconds) { patience_.expect_save(seconds); }

 private:
  /// Does the work of run(). run() reports its failure.
  ExitCode train();
  void begin_steps();
  /// True if a signal has requested any rank to save and end. Collective.
  bool any_rank_asked_to_stop();
  /// Evaluates the held-out set; returns nothing without one. `sequences`: see evaluate(). Collective.
  std::optional<telemetry::EvalMetrics> evaluate_heldout(int64_t sequences);
  /// Evaluates the sample once more, for the last point of its curve. Then evaluates the whole set and returns its
  /// result.
  std::optional<telemetry::EvalMetrics> evaluate_at_end();
  void save(SaveFailure on_failure);
  ExitCode end_preempted();
  ExitCode end_done();
  /// Records how the run ended, and writes report.html. `trouble` is a sentence with the reason why the run ended
  /// early; empty if it did not.
  void write_report(const std::string& trouble, Samples samples = {});
  bool leader() const { return world_.rank() == 0; }
  const Progress& progress() const { return state_->progress; }

  const comm::World& world_;
  Recipe recipe_;
  TrainingDirectory directory_;
  Checkpointer checkpoints_;
  SavePatience patience_;
  data::TrainingData data_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<StepObservers> observers_;
  RunStart start_;
  telemetry::MetricsHub sinks_;  // used on rank 0 only
};

}  // namespace hexad::train
