#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/telemetry/units.h"
#include "layers/model_size.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/output_file.h"
#include "tools/hexad/commands/usage.h"
#include "tools/hexad/mesh_svg.h"
#include "tools/hexad/mesh_table.h"
#include "tools/plan/memory_report.h"
#include "tools/plan/traffic_estimate.h"
#include "tools/train/cautions.h"
#include "tools/train/run_directory.h"
#include "tools/train/say.h"
#include "tools/train/stages.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  int64_t world = 0;
  bool mesh = false;
  std::string svg;
};

using telemetry::grouped;
using telemetry::human_bytes;
using telemetry::human_quantity;

void print_size(const Recipe& recipe) {
  const auto size = layers::model_size(recipe.model);
  const bool counted = layers::Registry().feed_forward(recipe.model.mlp) != nullptr;  // as every built-in layer is
  fmt::print("parameters          {:>18}{}\n", grouped(size.parameters),
             counted ? "" : "   without those of the layer " + recipe.model.mlp);
  fmt::print("  active a token    {:>18}\n", grouped(size.active_parameters));
  fmt::print("  in routed experts {:>18}\n", grouped(size.expert_parameters));
  fmt::print("FLOPs per token     {:>18}   forward and backward, {} tokens of context\n",
             human_quantity(size.flops_per_token, "FLOP"), recipe.model.context);
  fmt::print("tokens a step       {:>18}\n", grouped(recipe.batch.global * recipe.model.context));
}

void print_traffic(const Recipe& recipe, const mesh::Layout& layout) {
  const TrafficEstimate traffic = estimate_traffic(recipe, layout);
  if (traffic.total() == 0) return;
  fmt::print("\nsent by a rank in a step (estimate)\n");
  for (int c = 0; c < comm::traffic_class_count; ++c)
    if (const auto kind = static_cast<comm::TrafficClass>(c); traffic[kind] > 0)
      fmt::print("  {:<18}{:>18}\n", name_of(kind), human_bytes(traffic[kind]));
}

void validate(const Options& options, const layers::Registry& registry) {
  const config::Document document = config::load(options.recipe, options.overrides);
  const int64_t ranks = options.world > 0 ? options.world : load_recipe(document, registry, 0).parallel.fewest_ranks();
  Recipe recipe = load_recipe(document, registry, ranks, say);
  if (recipe.model.vocab == 0) complete(recipe, 1);
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
  const std::string too_much = memory_problem(recipe, registry, ranks);
  if (!too_much.empty()) base::fail(base::ExitCode::usage, options.recipe, ": ", too_much);
  fmt::print("{}: valid for {} rank{}{}\n\n", options.recipe, ranks, ranks == 1 ? "" : "s",
             options.world > 0 ? "" : ", the fewest; --world N checks it for N");
  for (const std::string& caution : cautions(recipe)) fmt::print("warning: {}\n\n", caution);
  print_size(recipe);
  fmt::print("\n{}", memory_table(recipe, registry, ranks));
  print_traffic(recipe, layout);
  if (recipe.parallel.pp > 1) fmt::print("\n{}", stage_table(recipe));
  if (!options.mesh) return;
  fmt::print("\n{}", mesh_table(layout));
  if (options.svg.empty()) return;
  require_replaceable(options.svg, "<svg ", "drawing");
  base::write_file(options.svg, mesh_svg(layout));
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
  auto* mesh = command->add_flag("--mesh", options->mesh, "print which ranks are in which group");
  command->add_option("--svg", options->svg, "draw the mesh into this file, too")->needs(mesh);
  command->callback([&line, options] { validate(*options, line.registry); });
}

}  // namespace hexad::app
