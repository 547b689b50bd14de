#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/plan/run_schedule.h"
#include "tools/train/signals.h"
#include "tools/train/trainer.h"

namespace hexad::app {

using namespace train;

namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
};

ExitCode run(const Options& options, const Registry& registry) {
  save_and_end_on_signals();
  return on_all_ranks([&](comm::World& world) {
    Recipe recipe = load_for_ranks(world, options.recipe, options.overrides, registry);
    return Trainer(std::move(recipe), registry, world, plan::RunSchedule::make).run();
  });
}

}  // namespace

void add_train(CommandLine& line) {
  auto* command = line.app.add_subcommand("train", "Train a model; alone or under mpirun");
  auto options = std::make_shared<Options>();
  command->add_option("recipe", options->recipe, "YAML recipe")->required();
  command->add_option("overrides", options->overrides, "key.path=value, applied to the recipe");
  command->callback([&line, options] { line.exit_code = run(*options, line.registry); });
}

}  // namespace hexad::app
