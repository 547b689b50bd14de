// A whole training run: everything that `hexad train` does after it has read the recipe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/stage_trainer.h"

namespace hexad::train {

class Trainer {
 public:
  /// Opens the run directory, the checkpoint to resume from, and the stage that trains the step after this checkpoint.
  /// Calls `prove_fused` for schedule.moe.fused: auto if the checkpoint has no decision for this device. If
  /// `prove_fused` is empty, auto means off. `extensions` and `world` must outlive the trainer. Throws Error if a path
  /// of the recipe cannot be used, so such errors occur before the first step. Collective.
  Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, MakeAdviser make_adviser = {},
          ProveFused prove_fused = {});

  /// Trains to the last step, stage by stage. A stage loads the checkpoint that the previous stage saved at its end,
  /// so the two stages may have different layouts. Returns and throws like StageTrainer::run().
  ExitCode run();

  /// Sets the estimated seconds of a save. The run then warns if mpirun's delay between SIGTERM and SIGKILL may be too
  /// short for a step and a save. Call it on rank 0 before run().
  void expect_save(double seconds) { patience_.expect_save(seconds); }

 private:
  void open_stage(std::optional<io::Checkpoint> checkpoint);
  /// Opens the stage that begins after `step`, from the checkpoint of this step. Collective.
  void open_next_stage(const std::string& checkpoint, int64_t step);
  /// Records a failure between two stages, and writes report.html. Call it on rank 0. StageTrainer handles failures
  /// during a stage.
  void report_failure(int64_t step, const std::string& reason);

  const Recipe recipe_;
  const Extensions& extensions_;
  const comm::World& world_;
  const MakeAdviser make_adviser_;
  const ProveFused prove_fused_;
  TrainingDirectory directory_;
  SavePatience patience_;
  SkippedSteps skipped_;
  std::vector<std::string> timelines_;  // see SharedRun::timelines
  std::unique_ptr<StageTrainer> stage_;
};

}  // namespace hexad::train
