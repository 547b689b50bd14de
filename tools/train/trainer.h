// The training run: what `hexad train` does between reading the recipe and exiting.
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
  /// Collective. Opens run directory, data, model, and the checkpoint to resume from. Everything that can be wrong with
  /// the recipe's paths fails here, before step 0.
  Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, const MakeAdviser& make_adviser = {});

  /// Trains to the last step; returns done, or preempted after a signal (state saved). Throws Error otherwise.
  ExitCode run();

  /// Estimated seconds of a save, on rank 0 before run(): it warns if mpirun leaves less time when it ends the job.
  void expect_save(double seconds) { patience_.expect_save(seconds); }

 private:
  /// Body of run(), which reports its failure.
  ExitCode train();
  void begin_steps();
  /// True if a signal has asked any rank to save and end. Collective.
  bool any_rank_asked_to_stop();
  /// Returns nothing without a held-out set. `sequences`: see evaluate(). Collective.
  std::optional<telemetry::EvalMetrics> evaluate_heldout(int64_t sequences);
  /// Evaluates the sample once more, the last point of its curve, and then the whole set, whose result it returns.
  std::optional<telemetry::EvalMetrics> evaluate_at_end();
  void save(SaveFailure on_failure);
  ExitCode end_preempted();
  ExitCode end_done();
  /// Records how the run ended and makes report.html. `trouble`: why it ended early, a sentence; empty: it did not.
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
  telemetry::MetricsHub sinks_;  // rank 0 only has any
};

}  // namespace hexad::train
