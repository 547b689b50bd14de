#include "tools/train/trainer.h"

#include <utility>

#include <fmt/format.h>

#include "tools/train/opening.h"
#include "tools/train/report/run_report.h"

namespace hexad::train {

Trainer::Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, MakeAdviser make_adviser,
                 ProveFused prove_fused)
    : recipe_(std::move(recipe)),
      extensions_(extensions),
      world_(world),
      make_adviser_(std::move(make_adviser)),
      prove_fused_(std::move(prove_fused)),
      directory_(recipe_, world),
      patience_(directory_.warn_function()) {
  prepare_rank(recipe_, world_, directory_);
  const Checkpointer checkpoints(recipe_, world_.group(), store_options(recipe_, world_, directory_));
  checkpoints.clean();
  open_stage(checkpoints.find());
}

ExitCode Trainer::run() {
  ExitCode code = stage_->run();
  while (code == ExitCode::done && !stage_->is_last()) {
    const std::string checkpoint = stage_->end_checkpoint();
    const int64_t step = stage_->step();
    stage_.reset();  // frees the model before the next stage makes its model
    open_next_stage(checkpoint, step);
    code = stage_->run();
  }
  return code;
}

void Trainer::open_stage(std::optional<io::Checkpoint> checkpoint) {
  const SharedRun shared{.recipe = recipe_,
                         .extensions = extensions_,
                         .world = world_,
                         .make_adviser = make_adviser_,
                         .prove_fused = prove_fused_,
                         .directory = directory_,
                         .patience = patience_,
                         .skipped = skipped_,
                         .timelines = timelines_};
  stage_ = std::make_unique<StageTrainer>(shared, std::move(checkpoint));
}

void Trainer::open_next_stage(const std::string& checkpoint, int64_t step) {
  try {
    open_stage(open_verified(checkpoint, world_.group(), world_.file_work()));
  } catch (const std::exception& e) {
    if (world_.rank() == 0) report_failure(step, e.what());
    throw;
  }
}

void Trainer::report_failure(int64_t step, const std::string& reason) {
  try {
    directory_.require_held_now();
    record_end(recipe_.run.dir, {.step = step,
                                 .date = utc_now(),
                                 .trouble = fmt::format("{} after step {}: {}", trouble_of_failure, step, reason),
                                 .facts = {},
                                 .samples = {},
                                 .timelines = timelines_});
    write_run_report(recipe_.run.dir);
  } catch (const std::exception& e) {  // any error: the reason why the run failed must still be reported
    directory_.warn(base::cat("no report: ", e.what()));
  }
}

}  // namespace hexad::train
