#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/telemetry/units.h"
#include "layers/model_size.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/output_file.h"
#include "tools/hexad/commands/validate_json.h"
#include "tools/hexad/mesh_svg.h"
#include "tools/hexad/mesh_table.h"
#include "tools/hexad/usage.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/plan/memory_report.h"
#include "tools/train/cautions.h"
#include "tools/train/job.h"
#include "tools/train/machine.h"
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
  bool mesh = false, json = false;
  std::string svg;
};

using telemetry::grouped;
using telemetry::human_bytes;
using telemetry::human_quantity;

void print_size(const Recipe& recipe, const train::Extensions& extensions) {
  const auto size = layers::model_size(recipe.model, extensions);
  fmt::print("parameters          {:>18}\n", grouped(size.parameters));
  fmt::print("  active a token    {:>18}\n", grouped(size.active_parameters));
  fmt::print("  in routed experts {:>18}\n", grouped(size.expert_parameters));
  fmt::print("FLOPs per token     {:>18}   forward and backward, {} tokens of context\n",
             human_quantity(size.flops_per_token, "FLOP"), recipe.model.context);
  fmt::print("tokens a step       {:>18}\n", grouped(recipe.batch.global * recipe.model.context));
}

void print_checkpoint(const Recipe& recipe, const train::Extensions& extensions) {
  const double bytes = checkpoint_bytes(recipe, extensions);
  const WriteTime time = estimate_write(recipe.run.dir, bytes);
  fmt::print("\ncheckpoint (estimate){:>16}   {}({})\n", human_bytes(bytes),
             time.seconds > 0 ? "about " + telemetry::human_duration(time.seconds) + " " : "", time.source);
}

// With it, `mpirun` does not refuse what `validate` has found good.
std::string start_line(const Options& options, int64_t ranks) {
  std::string text = fmt::format("{} {} train {}", launcher(ranks), program_name(), shell_word(options.recipe));
  for (const std::string& override : options.overrides) text += fmt::format(" '{}'", override);
  return text;
}

void print_text(const Options& options, const Recipe& recipe, const train::Extensions& extensions,
                const mesh::Layout& layout, const MemoryReport& memory) {
  const int ranks = layout.world();
  fmt::print("{}: valid for {} rank{}{}\n\n", options.recipe, ranks, ranks == 1 ? "" : "s",
             options.world > 0 ? "" : ", the fewest; --world N checks it for N");
  if (options.world > 1) fmt::print("here it is started by: {}\n\n", start_line(options, options.world));
  for (const std::string& caution : cautions(recipe)) fmt::print("warning: {}\n\n", caution);
  print_size(recipe, extensions);
  fmt::print("\n{}", memory.table());
  print_checkpoint(recipe, extensions);
  if (recipe.parallel.pp > 1) fmt::print("\n{}", stage_table(recipe, extensions));
  if (options.mesh) fmt::print("\n{}", mesh_table(layout));
}

void print_json(const Options& options, const Recipe& recipe, const train::Extensions& extensions,
                const mesh::Layout& layout, const MemoryReport& memory) {
  const std::vector<std::string> warnings = cautions(recipe);
  for (const std::string& caution : warnings) say("warning: " + caution);
  const double bytes = checkpoint_bytes(recipe, extensions);
  fmt::print("{}\n", json_of(Validation{.recipe = options.recipe,
                                        .ranks = layout.world(),
                                        .fewest_ranks = options.world == 0,
                                        .start_line = start_line(options, layout.world()),
                                        .warnings = warnings,
                                        .size = layers::model_size(recipe.model, extensions),
                                        .tokens_per_step = recipe.batch.global * recipe.model.context,
                                        .layout = layout,
                                        .stages = stage_split(recipe, extensions),
                                        .with_mesh = options.mesh,
                                        .estimates = memory.estimates(),
                                        .memory_limit_bytes = recipe.memory.limit_bytes,
                                        .checkpoint_bytes = bytes,
                                        .checkpoint_time = estimate_write(recipe.run.dir, bytes)}));
}

base::ExitCode validate(const Options& options, const train::Extensions& extensions) {
  const config::Document document = config::load(options.recipe, options.overrides);
  Recipe recipe = load_to_train(document, extensions, options.world, say);
  const int64_t ranks = options.world > 0 ? options.world : recipe.parallel.fewest_ranks();
  if (options.world == 0) recipe = load_to_train(document, extensions, ranks);
  if (recipe.model.vocab == 0) {
    require_datasets(recipe, options.recipe);
    complete(recipe, 1);
  }
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
  const MemoryReport memory(recipe, extensions, ranks);
  const std::string too_much = memory.problem();
  if (!too_much.empty()) base::fail(base::ExitCode::usage, options.recipe, ": ", too_much);
  if (options.json)
    print_json(options, recipe, extensions, layout, memory);
  else
    print_text(options, recipe, extensions, layout, memory);
  if (options.svg.empty()) return base::ExitCode::done;
  require_replaceable(options.svg, "<svg ", "drawing");
  base::write_file(options.svg, mesh_svg(layout));
  return base::ExitCode::done;
}

}  // namespace

void add_validate(const Program& program) {
  const Command command = program.root.add_command("validate", "Check a recipe; print parameters, FLOPs and memory");
  auto options = std::make_shared<Options>();
  command.add_option("recipe", &options->recipe, "YAML recipe").required();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the recipe");
  command
      .add_option("--world", &options->world, "number of ranks to check against; 0: the fewest that the layout needs")
      .legal(whole_number(0, 1 << 24));
  const Option mesh = command.add_flag("--mesh", options->mesh, "print which ranks are in which group");
  command.add_option("--svg", &options->svg, "draw the mesh into this file, too").needs(mesh);
  command.add_flag("--json", options->json,
                   "as one JSON object; of a recipe that is not valid its problems, with file, line, key and message");
  command.run([program, options] {
    const auto run = [&] { return validate(*options, program.extensions); };
    return options->json ? with_json_problems(options->recipe, options->overrides, run) : run();
  });
}

}  // namespace hexad::app
