#include "tools/train/trainer.h"

#include <utility>

#include "tools/train/opening.h"

namespace hexad::train {

Trainer::Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, MakeAdviser make_adviser)
    : recipe_(std::move(recipe)),
      extensions_(extensions),
      world_(world),
      make_adviser_(std::move(make_adviser)),
      directory_(recipe_, world),
      patience_(directory_.warner()) {
  prepare_rank(recipe_, world_, directory_);
  const Checkpointer checkpoints(recipe_, world_.group(), store_options(recipe_, world_, directory_));
  checkpoints.clean();
  open_stage(checkpoints.find());
}

ExitCode Trainer::run() {
  ExitCode code = stage_->run();
  while (code == ExitCode::done && !stage_->is_last()) {
    const std::string folder = stage_->end_checkpoint();
    stage_.reset();  // frees the memory of its model before the next one is made
    open_stage(open_verified(folder, world_.group(), world_.file_work()));
    code = stage_->run();
  }
  return code;
}

void Trainer::open_stage(std::optional<io::Checkpoint> checkpoint) {
  const SharedRun shared{.recipe = recipe_,
                         .extensions = extensions_,
                         .world = world_,
                         .make_adviser = make_adviser_,
                         .directory = directory_,
                         .patience = patience_};
  stage_ = std::make_unique<StageTrainer>(shared, std::move(checkpoint));
}

}  // namespace hexad::train
