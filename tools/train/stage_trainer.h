// One stage of a training run: its model, steps, evaluations and saves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/training_data.h"
#include "framework/telemetry/metrics.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/expert_duel.h"
#include "tools/train/model/training_state.h"
#include "tools/train/process/save_patience.h"
#include "tools/train/recipe/training_stages.h"
#include "tools/train/report/run_history.h"
#include "tools/train/report/samples.h"
#include "tools/train/report/step_observers.h"
#include "tools/train/report/training_directory.h"

namespace hexad::train {

using base::ExitCode;

/// Parts of a run that all its stages share. All members outlive the stages.
struct SharedRun {
  const Recipe& recipe;  // recipe of the whole run
  const Extensions& extensions;
  const comm::World& world;
  const MakeAdviser& make_adviser;
  const ProveFused& prove_fused;
  TrainingDirectory& directory;
  SavePatience& patience;
  SkippedSteps& skipped;
  std::vector<std::string>& timelines;  // on rank 0: timeline pictures of earlier stages, for the report
};

class StageTrainer {
 public:
  /// Opens the data and the model of the stage that trains the step after `checkpoint` or, without a checkpoint, of the
  /// first stage. Loads the weights. Throws Error if a path of the recipe cannot be used, so such errors occur before
  /// the stage's first step. Collective.
  StageTrainer(const SharedRun& run, std::optional<io::Checkpoint> checkpoint);

  /// Trains to the last step of the stage. Returns `done`, or `preempted` if a signal ended the run. A preempted run
  /// has saved its trained steps. Throws Error if the run fails.
  ExitCode run();

  /// True if no stage follows.
  bool is_last() const { return stage_ + 1 == stage_count(recipe_); }
  /// Returns the last step done.
  int64_t step() const { return progress().step; }
  /// Returns the folder of the checkpoint that was saved at the end of the stage. Must not be called for the last
  /// stage.
  std::string end_checkpoint() const { return checkpoints_.folder(progress().step); }

 private:
  /// Does the work of run(). If it throws, run() reports the failure.
  ExitCode train();
  void begin_steps();
  /// Passes the result of a step to its observers.
  void end_step(const StepResult& result);
  /// Completes the weights for the save with which a preempted run ends, and logs this save.
  void prepare_to_stop();
  /// Makes the compute stream wait for gathers of weights that the last step has updated.
  void complete_weights();
  /// True if a signal has asked any rank to save and end. Collective.
  bool any_rank_asked_to_stop();
  /// Evaluates `sequences` sequences of the held-out set (see evaluate()), and sends the metrics to the sinks. Returns
  /// none without a held-out set. Collective.
  std::optional<telemetry::EvalMetrics> evaluate_heldout(int64_t sequences);
  /// Evaluates the whole held-out set, and returns the result. If the run regularly evaluates a sample of this set,
  /// first evaluates the sample once more, for the last point of the loss curve.
  std::optional<telemetry::EvalMetrics> evaluate_at_end();
  void save(SaveFailure on_failure);
  /// Writes data.json, a record of the data that the run has used, to the run directory. Does nothing on ranks other
  /// than rank 0, or for a registered data source. A failed write is only a warning.
  void record_data();
  ExitCode end_preempted();
  ExitCode end_done();
  /// Returns the adviser's part of the report, with the timelines of earlier stages.
  telemetry::ReportInputs advice() const;
  /// Keeps the timelines for the report, which the last stage writes.
  void keep_timelines();
  /// Records how the run ended, and writes report.html. Omits the report if the run ended early in the first stage and
  /// this start has trained no step. Does nothing on ranks other than rank 0. A failure is only a warning. `trouble` is
  /// a sentence with the reason why the run ended early; empty if the run trained to its last step.
  void write_report(const std::string& trouble, Samples samples = {});
  bool trained() const { return progress().step > start_.run.first_step; }
  bool leader() const { return world_.rank() == 0; }
  const Progress& progress() const { return state_->progress; }

  const comm::World& world_;
  TrainingDirectory& directory_;
  SavePatience& patience_;
  std::vector<std::string>& timelines_;
  const int64_t stage_;
  Recipe recipe_;  // recipe with the keys of this stage
  const int64_t last_step_;
  Checkpointer checkpoints_;
  data::TrainingData data_;
  std::unique_ptr<ExpertDuel> expert_duel_;  // set only if ExpertDuel::wanted(); outlives state_, whose layers use it
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<StepObservers> observers_;
  RunStart start_;
  telemetry::MetricsHub sinks_;  // has sinks on rank 0 only
};

}  // namespace hexad::train
