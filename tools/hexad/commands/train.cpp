#include "tools/hexad/commands/bench_fused.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/plan/dense_rows.h"
#include "tools/plan/memory_check.h"
#include "tools/plan/run_schedule.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/say.h"
#include "tools/train/process/signals.h"
#include "tools/train/trainer.h"

namespace hexad::app {

using namespace base;

using namespace train;

namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string include_root;
};

ExitCode run(const TrainArguments& options, const Extensions& extensions) {
  save_and_end_on_signals();
  const auto body = [&](comm::World& world) {
    Recipe recipe = load_for_ranks(world, options.recipe, options.overrides, extensions, options.include_root);
    if (!plan::stages_fit_in_memory(recipe, extensions, world)) return ExitCode::resource;
    plan::require_profile(recipe);  // checked before training, even if only a later stage reads the profile
    const std::string dense_rows = plan::take_dense_rows(recipe);
    if (world.rank() == 0 && !dense_rows.empty()) say(dense_rows);
    Trainer trainer(recipe, extensions, world, plan::RunSchedule::make, prove_fused_in_child);
    if (world.rank() == 0 && mpirun_patience()) {
      const auto phase = world.file_work().announce("measuring the write speed of " + recipe.run.dir);
      trainer.expect_save(plan::estimate_write(recipe.run.dir, plan::checkpoint_bytes(recipe, extensions)).ample);
    }
    return trainer.run();
  };
  return on_all_ranks(body, {.asked_to_end = end_requested});
}

}  // namespace

void add_train(const Program& program) {
  const Command command = program.root.add_command("train", "Train a model; alone or under mpirun");
  auto options = std::make_shared<TrainArguments>();
  command.add_option("recipe", &options->recipe, "YAML recipe").required().path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the recipe");
  add_include_root(command, options->include_root);
  command.run([program, options] { return run(*options, program.extensions); });
}

}  // namespace hexad::app
