// The training run: the work of `hexad train` between reading the recipe and exiting.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/stage_trainer.h"

namespace hexad::train {

class Trainer {
 public:
  /// Opens the run directory, the checkpoint to resume from, and the stage that follows this checkpoint. Reports every
  /// error in the recipe's paths before step 0. `extensions` and `world` outlive the trainer. Collective.
  Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, MakeAdviser make_adviser = {});

  /// Trains to the last step, stage by stage. A stage begins by loading the checkpoint with which the previous stage
  /// ended, so its layout may differ. Returns done, or preempted if a signal ended the run and its state was saved.
  /// Otherwise throws Error.
  ExitCode run();

  /// Sets the estimated seconds of a save, on rank 0 before run(). Warns if mpirun leaves less time for a save when it
  /// ends the job.
  void expect_save(double seconds) { patience_.expect_save(seconds); }

 private:
  void open_stage(std::optional<io::Checkpoint> checkpoint);
  /// Opens the stage that follows the checkpoint of `step`. Collective.
  void open_next_stage(const std::string& checkpoint, int64_t step);
  /// Records a failure between two stages, and writes report.html. During a stage, StageTrainer does this.
  void report_failure(int64_t step, const std::string& reason);

  const Recipe recipe_;
  const Extensions& extensions_;
  const comm::World& world_;
  const MakeAdviser make_adviser_;
  TrainingDirectory directory_;
  SavePatience patience_;
  SkippedSteps skipped_;
  std::vector<std::string> timelines_;  // see SharedRun::timelines
  std::unique_ptr<StageTrainer> stage_;
};

}  // namespace hexad::train
