#include "tools/hexad/agreement.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/run_directory.h"
#include "tools/hexad/trainer.h"

namespace hexad::app {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
};

ExitCode train(const Options& options, const Registry& registry) {
  return on_all_ranks([&](comm::World& world) {
    Recipe recipe = load_on_all_ranks(world, [&] {
      Recipe r = load_recipe(config::load(options.recipe, options.overrides), registry, world.size());
      complete(r, ranks_of_this_node(world.topology()));
      return r;
    });
    world.set_guards(guards_of(recipe.distributed));
    order_traffic(world, recipe.distributed);
    return Trainer(std::move(recipe), registry, world).run();
  });
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
