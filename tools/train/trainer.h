// The training run: what `hexad train` does between reading the recipe and exiting.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "framework/data/training_data.h"
#include "framework/io/run_lock.h"
#include "framework/telemetry/metrics.h"
#include "framework/telemetry/report.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/report/peak_meter.h"
#include "tools/train/report/rank_clock.h"
#include "tools/train/report/run_trace.h"
#include "tools/train/schedule_adviser.h"
#include "tools/train/train_step.h"

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
  void expect_save(double seconds);

 private:
  /// Opens the training data, in the order in which the checkpoint's run, if there is one, has them.
  void open_data(const std::optional<io::Checkpoint>& checkpoint);
  void resume(std::optional<io::Checkpoint> checkpoint);
  void open_sinks();
  void begin_steps();
  telemetry::StepMetrics metrics_of(const StepResult& result);
  /// True if the metrics of `step` show the load of every expert.
  bool shows_loads(int64_t step) const;
  std::optional<telemetry::EvalMetrics> evaluate_heldout(int64_t sequences);
  /// Evaluates the sample once more, the last point of its curve, and then the whole set, whose result it returns.
  std::optional<telemetry::EvalMetrics> evaluate_at_end();
  void save(SaveFailure on_failure);
  std::vector<telemetry::ReportInputs::Sample> samples();
  std::vector<telemetry::ReportInputs::Sample> samples_of_checkpoint();
  std::string lacks_room_for(const Recipe& alone) const;
  /// Body of run(), which reports its failure.
  ExitCode train();
  /// Records how the run ended and makes report.html. `trouble`: why it ended early, a sentence; empty: it did not.
  void write_report(const std::string& trouble, std::vector<telemetry::ReportInputs::Sample> continued = {});
  void warn(const std::string& text);
  void warn_of_short_patience();
  bool anyone(bool flag);
  bool leader() const { return world_.rank() == 0; }

  const comm::World& world_;
  const Extensions extensions_;
  std::optional<io::RunLock> lock_;           // rank 0
  std::shared_ptr<spdlog::logger> log_;       // on rank 0 the terminal's, too; so all ranks say there what all know
  std::shared_ptr<spdlog::logger> log_file_;  // its file alone
  data::TrainingData data_;
  Recipe recipe_;
  std::vector<int32_t> bytes_per_id_;
  std::unique_ptr<ModelInstance> instance_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Checkpointer> checkpoints_;
  std::unique_ptr<TrainStep> step_;
  std::optional<RankClock> clock_;
  telemetry::MetricsHub sinks_;  // rank 0 only has any
  telemetry::RunInfo info_;
  Progress progress_;
  std::vector<std::string> changes_;  // of the recipe, since the checkpoint that was resumed from
  std::optional<RunTrace> trace_;
  std::unique_ptr<ScheduleAdviser> adviser_;  // null: the recipe's schedule stands
  int64_t saved_step_ = -1;
  double fastest_step_ = 0;             // in seconds; 0: not known yet
  std::optional<double> save_seconds_;  // of the next save; none: unknown, or the warning about it has been given
  double flops_per_token_ = 0;
  std::optional<PeakMeter> peak_;
  bool told_of_no_targets_ = false;
};

}  // namespace hexad::train
