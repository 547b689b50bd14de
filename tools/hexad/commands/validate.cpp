#include <optional>

#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/config/document.h"
#include "layers/model_size.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/commands/validate_json.h"
#include "tools/hexad/mesh_svg.h"
#include "tools/hexad/mesh_table.h"
#include "tools/hexad/usage.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/plan/cluster.h"
#include "tools/plan/memory_check.h"
#include "tools/plan/memory_report.h"
#include "tools/plan/run_schedule.h"
#include "tools/plan/step_forecast.h"
#include "tools/train/checkpoint/start_check.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/process_placement.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/cautions.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/stages.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string include_root;
  int64_t world = 0;
  bool mesh = false, json = false;
  std::string svg, cluster;
};

using base::grouped;
using base::human_bytes;
using base::human_quantity;

void print_size(const Recipe& recipe, const train::Extensions& extensions) {
  const auto size = layers::model_size(recipe.model, extensions);
  fmt::print("parameters          {:>18}\n", grouped(size.parameters));
  fmt::print("  active a token    {:>18}\n", grouped(size.active_parameters));
  fmt::print("  in routed experts {:>18}\n", grouped(size.expert_parameters));
  fmt::print("FLOPs per token     {:>18}   forward and backward, {} of context\n",
             human_quantity(size.flops_per_token, "FLOP"), base::counted(recipe.model.context, "token"));
  fmt::print("tokens a step       {:>18}\n", grouped(recipe.batch.global * recipe.model.context));
}

void print_checkpoint(double bytes, const WriteTime& time) {
  const std::string seconds = time.text();
  fmt::print("\ncheckpoint (estimate){:>16}   {}{}({})\n", human_bytes(bytes), seconds, seconds.empty() ? "" : " ",
             time.source);
}

// Returns the command line that starts the run. With it, the launcher accepts every run that `validate` accepts.
std::string start_line(const Options& options, int64_t ranks, double save_seconds) {
  const std::string text =
      fmt::format("{} {} train {}", launcher_to_train(ranks, save_seconds), program_name(), shell_word(options.recipe));
  return text + recipe_words(options);
}

// Returns a warning if the model does not fit on this machine. It is not an error, because a recipe may be meant for
// another machine.
std::string caution_of_machine(const Recipe& recipe, const train::Extensions& extensions, int64_t ranks) {
  try {
    const MemoryFit fit = memory_fit_on_this_machine(recipe, extensions, ranks);
    return fit.verdict == MemoryFit::Verdict::too_much ? "the model does not fit on this machine: " + fit.text
                                                       : fit.text;
  } catch (const base::Error& e) {
    return base::cat("the recipe does not start on this machine: ", e.what());
  }
}

// Returns the node of every rank in the measurement of schedule.profile. Empty if there is no readable profile of
// `ranks` ranks.
std::vector<int> nodes_of_profile(const Recipe& recipe, int64_t ranks) {
  std::vector<int> nodes;
  if (recipe.schedule.profile.empty()) return nodes;
  try {
    const plan::Origin origin = load_cluster(recipe.schedule.profile).measured;
    if (origin.nodes * origin.ranks_per_node != ranks) return nodes;
    for (int64_t rank = 0; rank < ranks; ++rank) nodes.push_back(static_cast<int>(rank / origin.ranks_per_node));
  } catch (const base::Error&) {  // a run that needs the profile is refused before
  }
  return nodes;
}

struct Checked {
  Recipe recipe;
  mesh::Layout layout;
  std::vector<std::string> warnings;
  StartCheck start;
  double checkpoint_bytes;
  WriteTime save;
  std::optional<StepOnCluster> step;
};

std::string resume_text(const Checked& c) {
  const int64_t left = c.recipe.train.steps - c.start.trained_steps;
  const std::string steps =
      left > 0
          ? fmt::format("{} of {} {} left", left, base::counted(c.recipe.train.steps, "step"), left == 1 ? "is" : "are")
          : fmt::format("no step is left, because train.steps is {}", c.recipe.train.steps);
  return fmt::format("continues from {}, after step {}: {}", c.start.checkpoint, c.start.trained_steps, steps);
}

std::optional<StepOnCluster> step_on_cluster(const Options& options, const Recipe& recipe, const mesh::Layout& layout,
                                             const train::Extensions& extensions) {
  if (options.cluster.empty()) return {};
  const Cluster cluster = load_cluster(options.cluster);
  const StepPrices prices(cluster, layout.world());
  const double seconds = forecast_step(recipe, extensions, layout, prices).seconds;
  return StepOnCluster{.cluster = options.cluster,
                       .seconds = seconds,
                       .error = prediction_error(cluster),
                       .rates = throughput(seconds, recipe, extensions, prices.prices(), layout.world()),
                       .assumed = assumptions(cluster)};
}

// Prints latency, throughput and MFU (the outputs of MoNTA's model).
void print_step(const StepOnCluster& step, int ranks) {
  fmt::print("\na step on {} (estimate)\n", step.cluster);
  fmt::print("  latency          {:>14}   {}\n", step.error.text(step.seconds), step.error.explanation());
  fmt::print("  throughput       {:>14}   tokens/s, {} for each rank\n",
             base::human_count(step.rates.tokens_per_second), base::human_count(step.rates.tokens_per_second / ranks));
  if (step.rates.peak_flops_per_second > 0)
    fmt::print("  MFU              {:>14}   of {} for each rank\n", base::human_percent(step.rates.mfu()),
               human_quantity(step.rates.peak_flops_per_second / ranks, "FLOP/s"));
  for (const std::string& assumed : step.assumed) fmt::print("  assumed: {}\n", assumed);
}

void print_text(const Options& options, const Checked& c, const train::Extensions& extensions,
                const MemoryReport& memory) {
  const int ranks = c.layout.world();
  const std::string table = memory.table();  // makes the model, because its layers may refuse it
  fmt::print("{}: valid for {}{}\n\n", options.recipe, base::counted(ranks, "rank"),
             options.world > 0 ? "" : ", the smallest possible number; --world N checks it for N ranks");
  if (options.world > 1)
    fmt::print("start it here with: {}\n{}\n\n", start_line(options, ranks, c.save.ample), explain_launcher());
  if (!c.start.checkpoint.empty()) fmt::print("{}\n\n", resume_text(c));
  for (const std::string& warning : c.warnings) fmt::print("warning: {}\n\n", warning);
  print_size(c.recipe, extensions);
  fmt::print("\n{}", table);
  print_checkpoint(c.checkpoint_bytes, c.save);
  if (c.step) print_step(*c.step, ranks);
  if (c.recipe.parallel.pp > 1) fmt::print("\n{}", stage_table(c.recipe, extensions));
  if (options.mesh) fmt::print("\n{}", mesh_table(c.layout));
}

void print_json(const Options& options, const Checked& c, const train::Extensions& extensions,
                const MemoryReport& memory) {
  for (const std::string& warning : c.warnings) say("warning: " + warning);
  fmt::print("{}\n", json_of(Validation{.recipe = options.recipe,
                                        .ranks = c.layout.world(),
                                        .fewest_ranks = options.world == 0,
                                        .start_line = start_line(options, c.layout.world(), c.save.ample),
                                        .warnings = c.warnings,
                                        .start = c.start,
                                        .size = layers::model_size(c.recipe.model, extensions),
                                        .tokens_per_step = c.recipe.batch.global * c.recipe.model.context,
                                        .layout = c.layout,
                                        .stages = stage_split(c.recipe, extensions),
                                        .with_mesh = options.mesh,
                                        .estimates = memory.estimates(),
                                        .memory_limit_bytes = c.recipe.memory.limit(),
                                        .checkpoint_bytes = c.checkpoint_bytes,
                                        .checkpoint_time = c.save,
                                        .step = c.step}));
}

base::ExitCode validate(const Options& options, const train::Extensions& extensions) {
  const config::Document document = config::load(options.recipe, options.overrides, options.include_root);
  Recipe recipe = load_to_train(document, extensions, options.world, say);
  const int64_t ranks = options.world > 0 ? options.world : recipe.parallel.fewest_ranks();
  if (options.world == 0) recipe = load_to_train(document, extensions, ranks);
  require_datasets(recipe, options.recipe);
  complete(recipe, 1);
  std::vector<std::string> warnings = cautions(recipe);
  const StartCheck start = check_start(recipe, extensions);
  warnings.insert(warnings.end(), start.warnings.begin(), start.warnings.end());
  require_profile(recipe);
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
  if (const std::vector<int> nodes = nodes_of_profile(recipe, ranks); !nodes.empty())
    if (std::string text = warn_of_order(recipe.parallel.sizes(), nodes); !text.empty())
      warnings.push_back(std::move(text));
  const MemoryReport memory(recipe, extensions, ranks);
  const std::string too_much = memory.problem();
  if (!too_much.empty()) base::fail(base::ExitCode::usage, options.recipe, ": ", too_much);
  if (std::string text = caution_of_machine(recipe, extensions, ranks); !text.empty())
    warnings.push_back(std::move(text));
  const double bytes = checkpoint_bytes(recipe, extensions);
  const Checked checked{.recipe = recipe,
                        .layout = layout,
                        .warnings = std::move(warnings),
                        .start = start,
                        .checkpoint_bytes = bytes,
                        .save = estimate_write(recipe.run.dir, bytes),
                        .step = step_on_cluster(options, recipe, layout, extensions)};
  options.json ? print_json(options, checked, extensions, memory) : print_text(options, checked, extensions, memory);
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
  add_include_root(command, options->include_root);
  command
      .add_option("--world", &options->world,
                  "number of ranks for which to check the recipe; 0: the smallest number that the layout needs")
      .legal(whole_number(0, 1 << 24));
  command
      .add_option("--cluster", &options->cluster,
                  "YAML of a cluster, measured or described: also estimate latency, throughput and MFU of a step there")
      .path();
  const Option mesh = command.add_flag("--mesh", options->mesh, "print the ranks of each group");
  command.add_option("--svg", &options->svg, "SVG file to write, with a picture of the mesh").needs(mesh).path();
  command.add_flag("--json", options->json,
                   "print one JSON object; for an invalid recipe, its problems with file, line, key and message");
  command.run(on_one_rank(command, [program, options] {
    const auto run = [&] { return validate(*options, program.extensions); };
    return options->json ? with_json_problems(options->recipe, options->overrides, run) : run();
  }));
}

}  // namespace hexad::app
