#include <fmt/core.h>

#include "framework/telemetry/units.h"
#include "layers/model_size.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/usage.h"
#include "tools/hexad/memory_estimate.h"
#include "tools/hexad/mesh_table.h"
#include "tools/hexad/run_directory.h"

namespace hexad::app {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  int64_t world = 0;
  bool mesh = false;
};

void validate(const Options& options, const layers::Registry& registry) {
  using namespace telemetry;
  const config::Document document = config::load(options.recipe, options.overrides);
  const int64_t ranks = options.world > 0 ? options.world : load_recipe(document, registry, 0).parallel.fewest_ranks();
  Recipe recipe = load_recipe(document, registry, ranks);
  if (recipe.model.vocab == 0) complete(recipe, 1);
  const auto size = layers::model_size(recipe.model);
  const auto memory = estimate_memory(recipe, ranks);
  fmt::print("{}: valid for {} rank{}\n\n", options.recipe, ranks, ranks == 1 ? "" : "s");
  const bool counted = layers::Registry().feed_forward(recipe.model.mlp) != nullptr;  // as every built-in layer is
  fmt::print("parameters          {:>18}{}\n", grouped(size.parameters),
             counted ? "" : "   without those of the layer " + recipe.model.mlp);
  fmt::print("  active a token    {:>18}\n", grouped(size.active_parameters));
  fmt::print("  in routed experts {:>18}\n", grouped(size.expert_parameters));
  fmt::print("FLOPs per token     {:>18}   forward and backward, {} tokens of context\n",
             human_quantity(size.flops_per_token, "FLOP"), recipe.model.context);
  fmt::print("tokens a step       {:>18}\n\n", grouped(recipe.batch.global * recipe.model.context));
  fmt::print("memory of a rank (estimate)\n");
  fmt::print("  weights           {:>18}\n", human_bytes(memory.weights));
  fmt::print("  gradients         {:>18}\n", human_bytes(memory.gradients));
  fmt::print("  optimizer         {:>18}\n", human_bytes(memory.optimizer));
  if (memory.offloaded > 0) fmt::print("    in a file       {:>18}\n", human_bytes(memory.offloaded));
  fmt::print("  activations       {:>18}   of one micro-batch, evenly loaded experts\n",
             human_bytes(memory.activations));
  fmt::print("  total             {:>18}\n", human_bytes(memory.total()));
  if (options.mesh) fmt::print("\n{}", mesh_table(mesh::Layout(recipe.parallel.sizes(), static_cast<int>(ranks))));
}

}  // namespace

void add_validate(CommandLine& line) {
  auto* command = line.app.add_subcommand("validate", "Check a recipe; print parameters, FLOPs and memory");
  auto options = std::make_shared<Options>();
  command->add_option("recipe", options->recipe, "YAML recipe")->required();
  command->add_option("overrides", options->overrides, "key.path=value, applied to the recipe");
  command
      ->add_option("--world", options->world, "number of ranks to check against; 0: the fewest that the layout needs")
      ->check(whole_number(0, 1 << 24));
  command->add_flag("--mesh", options->mesh, "print which ranks are in which group");
  command->callback([&line, options] { validate(*options, line.registry); });
}

}  // namespace hexad::app
