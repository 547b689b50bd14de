#include <exception>

#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/run_directory.h"
#include "tools/hexad/trainer.h"

namespace hexad::app {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
};

ExitCode train(const Options& options, const Registry& registry) {
  comm::World world;
  try {
    Recipe recipe = load_recipe(config::load(options.recipe, options.overrides), registry, world.size());
    complete(recipe, ranks_of_this_node(world.topology()));
    return Trainer(std::move(recipe), registry, world).run();
  } catch (const std::exception& e) {
    // Alone, the error travels up to main. With peers it is printed here, and the job ends at once: they may be waiting
    // for this rank in a collective. All ranks find the same mistake in a recipe; the first one speaks for them.
    if (world.size() == 1) throw;
    const auto* error = dynamic_cast<const Error*>(&e);
    const ExitCode code = error ? error->code() : static_cast<ExitCode>(1);
    if (world.rank() == 0 || (code != ExitCode::usage && code != ExitCode::peer_lost))
      fmt::print(stderr, "hexad: rank {}: {}\n", world.rank(), e.what());
    world.abort_job(code);
  }
}

}  // namespace

void add_train(CommandLine& line) {
  auto* command = line.app.add_subcommand("train", "Train a model; alone or under mpirun");
  auto options = std::make_shared<Options>();
  command->add_option("recipe", options->recipe, "YAML recipe")->required();
  command->add_option("overrides", options->overrides, "key.path=value, applied to the recipe");
  command->callback([&line, options] { line.exit_code = train(*options, line.registry); });
}

}  // namespace hexad::app
