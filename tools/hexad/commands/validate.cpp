#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/name_pattern.h"
#include "framework/base/units.h"
#include "framework/config/document.h"
#include "layers/model_size.h"
#include "parallel/comm/mpi_library.h"
#include "tools/hexad/commands/cluster_options.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/commands/validate_json.h"
#include "tools/hexad/commands/validate_nearest.h"
#include "tools/hexad/mesh_views.h"
#include "tools/hexad/usage.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/plan/cluster.h"
#include "tools/plan/cluster_device.h"
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
#include "tools/train/recipe/training_stages.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct ValidateArguments {
  std::string recipe;
  std::vector<std::string> overrides, cluster_overrides;
  std::string include_root;
  int64_t world = 0;
  int64_t at_least = 1;  // smallest number of ranks for --nearest
  bool mesh = false, json = false, nearest = false, run_dir = false;
  std::string svg, cluster;
};

using base::grouped;
using base::human_bytes;
using base::human_quantity;

void print_size(const Recipe& recipe, const train::Extensions& extensions) {
  const auto size = layers::model_size(recipe.model, extensions);
  fmt::print("parameters          {:>18}\n", grouped(size.parameters));
  fmt::print("  active per token  {:>18}\n", grouped(size.active_parameters));
  fmt::print("  in routed experts {:>18}\n", grouped(size.expert_parameters));
  if (!recipe.optim.freeze.empty()) {
    int64_t frozen = 0;
    for (const auto& p : layers::parameter_sizes(recipe.model, extensions))
      if (base::matches_any(recipe.optim.freeze, p.name)) frozen += p.elements;
    fmt::print("  frozen            {:>18}\n", grouped(frozen));
  }
  fmt::print("FLOPs per token     {:>18}   forward and backward, {} of context\n",
             human_quantity(size.flops_per_token, "FLOP"), base::counted(recipe.model.context, "token"));
  fmt::print("tokens per step     {:>18}\n", grouped(recipe.batch.global * recipe.model.context));
}

void print_checkpoint(double bytes, const WriteTime& time) {
  const std::string seconds = time.text();
  fmt::print("\ncheckpoint (estimate){:>16}   {}{}({})\n", human_bytes(bytes), seconds, seconds.empty() ? "" : " ",
             time.source);
}

// Returns the command that starts the run on this machine. The options in this command let the launcher start any
// number of ranks that `validate` accepts.
std::string start_line(const ValidateArguments& options, int64_t ranks, double save_seconds) {
  const std::string text =
      fmt::format("{} {} train {}", launcher_to_train(ranks, save_seconds), program_name(), shell_word(options.recipe));
  return text + recipe_words(options);
}

// Returns a warning in these cases, otherwise an empty text:
// - the model does not fit, or may not fit, on this machine
// - this machine's memory cannot be read
// - the recipe does not start on this machine
//
// These cases are not errors, because the recipe may be meant for another machine.
std::string caution_of_machine(const Recipe& recipe, const train::Extensions& extensions, int64_t ranks) {
  try {
    const MemoryFit fit = memory_fit_on_this_machine(recipe, extensions, ranks);
    return fit.verdict == MemoryFit::Verdict::too_much ? "the model does not fit on this machine: " + fit.text
                                                       : fit.text;
  } catch (const base::Error& e) {
    return base::cat("the recipe does not start on this machine: ", e.what());
  }
}

// Returns the node of every rank, as recorded in schedule.profile. Returns an empty list without a readable profile of
// `ranks` ranks.
std::vector<int> nodes_of_profile(const Recipe& recipe, int64_t ranks) {
  std::vector<int> nodes;
  if (recipe.schedule.profile.empty()) return nodes;
  try {
    const plan::Origin origin = load_cluster(recipe.schedule.profile).measured;
    if (origin.nodes * origin.ranks_per_node != ranks) return nodes;
    for (int64_t rank = 0; rank < ranks; ++rank) nodes.push_back(static_cast<int>(rank / origin.ranks_per_node));
  } catch (const base::Error&) {  // require_profile() has already rejected a recipe that needs the profile
  }
  return nodes;
}

// Results of the checks of one stage of training.
struct CheckedStage {
  Recipe recipe;
  std::string text;  // result of stage_text()
  mesh::Layout layout;
  MemoryReport memory;
  std::optional<StepOnCluster> step;
};

struct Checked {
  std::vector<CheckedStage> stages;  // at least one stage
  std::vector<std::string> warnings;
  StartCheck start;
  double checkpoint_bytes;
  WriteTime save;

  int ranks() const { return stages.front().layout.world(); }
};

std::string resume_text(const StartCheck& start, int64_t all) {
  const int64_t left = all - start.trained_steps;
  const std::string steps =
      left > 0 ? fmt::format("{} of {} {} left", left, base::counted(all, "step"), left == 1 ? "is" : "are")
               : fmt::format("no step is left, because train.steps is {}", all);
  return fmt::format("continues from {}, after step {}: {}", start.checkpoint, start.trained_steps, steps);
}

// Returns the predicted step on `cluster`, which was read from the file `path`. Appends two texts to `warnings`: one
// about groups that parallel.order spreads over several domains of the fast link, and one about insufficient memory. A
// text is empty if there is nothing to warn about.
StepOnCluster step_on_cluster(const Cluster& cluster, const std::string& path, const Recipe& recipe,
                              const mesh::Layout& layout, const train::Extensions& extensions,
                              std::vector<std::string>& warnings) {
  const StepPrices prices(cluster, layout.world());
  const int64_t domain = prices.prices().domain();
  const std::vector<int> domain_of_rank = prices.domain_of_rank();
  const bool nodes = domain == prices.prices().ranks_per_node();
  warnings.push_back(warn_of_order(recipe.parallel.sizes(), domain_of_rank, nodes ? "nodes" : "domains"));
  const StepForecast step = forecast_step(recipe, extensions, layout, prices);
  warnings.push_back(caution_of_cluster_memory(recipe, extensions, cluster, path, layout.world(), RoutingLoad::even));
  return {.cluster = path,
          .seconds = step.seconds,
          .error = prediction_error(cluster),
          .rates = throughput(step.seconds, recipe, extensions, prices.prices(), layout.world()),
          .assumed = assumptions(cluster, step.uneven_groups),
          .spread = spread_of_axes(layout, domain_of_rank),
          .places = nodes ? "nodes" : "domains"};
}

// Returns the axes whose groups span several nodes or domains, each with the number of nodes or domains: a text like
// "dp 4, ep 2", or "none".
std::string across_text(const std::vector<AxisSpread>& spread) {
  std::string text;
  for (const AxisSpread& axis : spread)
    if (axis.nodes > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", mesh::name_of(axis.axis), axis.nodes);
  return text.empty() ? "none" : text;
}

// Prints latency, throughput and MFU, which are also the outputs of MoNTA's model.
void print_step(const StepOnCluster& step, int ranks) {
  fmt::print("\na step on {} (estimate)\n", step.cluster);
  fmt::print("  latency          {:>14}   {}\n", step.error.text(step.seconds), step.error.explanation());
  fmt::print("  throughput       {:>14}   tokens/s, {} for each rank\n",
             base::human_count(step.rates.tokens_per_second), base::human_count(step.rates.tokens_per_second / ranks));
  if (step.rates.peak_flops_per_second > 0)
    fmt::print("  MFU              {:>14}   of {} for each rank\n", base::human_percent(step.rates.mfu()),
               human_quantity(step.rates.peak_flops_per_second / ranks, "FLOP/s"));
  fmt::print("  groups across {}: {}\n", step.places, across_text(step.spread));
  for (const std::string& assumed : step.assumed) fmt::print("  assumed: {}\n", assumed);
}

void print_stage(const ValidateArguments& options, const Checked& c, const CheckedStage& stage,
                 const std::string& memory, const train::Extensions& extensions) {
  const Recipe& recipe = stage.recipe;
  if (!stage.text.empty())
    fmt::print("{}\ncontext {}, {}\n\n", stage.text, recipe.model.context,
               describe(recipe.parallel, stage.layout.world()));
  print_size(recipe, extensions);
  fmt::print("\n{}", memory);
  if (&stage == &c.stages.front()) print_checkpoint(c.checkpoint_bytes, c.save);  // equal for all stages
  if (stage.step) print_step(*stage.step, stage.layout.world());
  if (recipe.parallel.pp > 1) fmt::print("\n{}", stage_table(recipe, extensions));
  if (options.mesh) fmt::print("\n{}", mesh_table(stage.layout));
}

void print_text(const ValidateArguments& options, const Checked& c, const train::Extensions& extensions) {
  std::vector<std::string> memory;  // made before printing, because table() may throw
  for (const CheckedStage& stage : c.stages) memory.push_back(stage.memory.table());
  fmt::print("{}: valid for {}{}\n\n", options.recipe, base::counted(c.ranks(), "rank"),
             options.world > 0 ? "" : ", the smallest possible number; --world N checks the recipe for N ranks");
  if (options.world > 1)
    fmt::print("start it here with: {}\n{}\n  MPI library: {}\n\n", start_line(options, c.ranks(), c.save.ample),
               explain_launcher(), comm::mpi_library().name);
  if (!c.start.checkpoint.empty()) fmt::print("{}\n\n", resume_text(c.start, c.stages.front().recipe.train.steps));
  for (const std::string& warning : c.warnings) fmt::print("warning: {}\n\n", warning);
  for (size_t s = 0; s < c.stages.size(); ++s) {
    if (s > 0) fmt::print("\n");
    print_stage(options, c, c.stages[s], memory[s], extensions);
  }
}

void print_json(const ValidateArguments& options, const Checked& c, const train::Extensions& extensions) {
  for (const std::string& warning : c.warnings) say("warning: " + warning);
  std::vector<Validation> stages;
  for (const CheckedStage& stage : c.stages)
    stages.push_back({.recipe = options.recipe,
                      .stage = stage.text,
                      .ranks = c.ranks(),
                      .fewest_ranks = options.world == 0,
                      .start_line = start_line(options, c.ranks(), c.save.ample),
                      .warnings = c.warnings,
                      .start = c.start,
                      .size = layers::model_size(stage.recipe.model, extensions),
                      .tokens_per_step = stage.recipe.batch.global * stage.recipe.model.context,
                      .layout = stage.layout,
                      .stages = stage_split(stage.recipe, extensions),
                      .with_mesh = options.mesh,
                      .estimates = stage.memory.estimates(),
                      .memory_limit_bytes = stage.recipe.memory.limit(),
                      .checkpoint_bytes = c.checkpoint_bytes,
                      .checkpoint_time = c.save,
                      .step = stage.step});
  fmt::print("{}\n", json_of(stages));
}

// Checks one stage of the recipe `run`. `cluster` is the cluster of --cluster; none without this option. Appends the
// stage's warnings to `warnings`.
CheckedStage checked_stage(const ValidateArguments& options, const std::optional<Cluster>& cluster, const Recipe& run,
                           int64_t stage, int64_t ranks, const train::Extensions& extensions,
                           std::vector<std::string>& warnings) {
  const Recipe recipe = with_stage(run, stage);
  const auto warn = [&](const std::string& warning) {
    if (!warning.empty()) warnings.push_back(stage_prefix(run, stage) + warning);
  };
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
  if (const std::vector<int> nodes = nodes_of_profile(recipe, ranks); !cluster && !nodes.empty())
    warn(warn_of_order(recipe.parallel.sizes(), nodes));
  MemoryReport memory(recipe, extensions, ranks);
  if (const std::string too_much = memory.problem(); !too_much.empty())
    base::fail(base::ExitCode::usage, options.recipe, ": ", stage_prefix(run, stage), too_much);
  warn(caution_of_machine(recipe, extensions, ranks));
  std::vector<std::string> of_cluster;
  std::optional<StepOnCluster> step;
  if (cluster)
    step = on_cluster(options.cluster, options.cluster_overrides, [&] {
      return step_on_cluster(*cluster, options.cluster, recipe, layout, extensions, of_cluster);
    });
  std::ranges::for_each(of_cluster, warn);
  return {.recipe = recipe,
          .text = stage_text(run, stage),
          .layout = layout,
          .memory = std::move(memory),
          .step = std::move(step)};
}

base::ExitCode print_nearest(const ValidateArguments& options, config::Document document,
                             const train::Extensions& extensions) {
  for (const auto& [given, option] : {std::pair(options.json, "--json"), std::pair(options.mesh, "--mesh"),
                                      std::pair(!options.cluster.empty(), "--cluster")})
    if (given)
      base::fail(base::ExitCode::usage, "--nearest and ", option,
                 " are given; expected at most one of them, because --nearest only prints a layout");
  if (options.world == 0)
    base::fail(base::ExitCode::usage,
               "--world is 0, expected at least 1 with --nearest, which needs the number of ranks to use");
  if (options.at_least > options.world)
    base::fail(base::ExitCode::usage, "--at-least is ", options.at_least, ", expected at most --world (", options.world,
               ")");
  return print_nearest_layout(options.recipe, std::move(document), {.fewest = options.at_least, .most = options.world},
                              extensions);
}

base::ExitCode validate(const ValidateArguments& options, const train::Extensions& extensions) {
  if (options.cluster.empty() && !options.cluster_overrides.empty())
    base::fail(base::ExitCode::usage, config::command_line_source, "cluster.", options.cluster_overrides.front(),
               ": the override is given without --cluster; expected --cluster FILE, whose key it replaces");
  config::Document document = config::load(options.recipe, options.overrides, options.include_root);
  if (options.run_dir) {
    fmt::print("{}\n", load_to_train(document, extensions, options.world).run.dir);
    return base::ExitCode::done;
  }
  if (options.nearest) return print_nearest(options, std::move(document), extensions);
  std::optional<Cluster> cluster;
  if (!options.cluster.empty()) {
    cluster = load_cluster(options.cluster, options.cluster_overrides);
    document = on_device_of(*cluster, options.cluster, std::move(document), say);
  }
  Recipe recipe = load_to_train(document, extensions, options.world, say);
  const int64_t ranks = options.world > 0 ? options.world : fewest_ranks(recipe);
  if (options.world == 0) recipe = load_to_train(document, extensions, ranks);
  require_datasets(recipe, options.recipe);
  complete(recipe, 1);
  if (stage_count(recipe) > 1 && !options.svg.empty())
    base::fail(base::ExitCode::usage, "--svg draws one layout, but the recipe has ", stage_count(recipe),
               " stages; set stages=[] and the keys of a stage on the command line");
  if (!options.svg.empty()) require_replaceable(options.svg, "<svg ", "drawing");
  std::vector<std::string> warnings = cautions(recipe);
  StartCheck start = check_start(recipe, extensions);
  warnings.insert(warnings.end(), start.warnings.begin(), start.warnings.end());
  require_profile(recipe);
  std::vector<CheckedStage> stages;
  for (int64_t s = 0; s < stage_count(recipe); ++s)
    stages.push_back(checked_stage(options, cluster, recipe, s, ranks, extensions, warnings));
  const double bytes = checkpoint_bytes(recipe, extensions);
  const Checked checked{.stages = std::move(stages),
                        .warnings = std::move(warnings),
                        .start = std::move(start),
                        .checkpoint_bytes = bytes,
                        .save = estimate_write(recipe.run.dir, bytes)};
  options.json ? print_json(options, checked, extensions) : print_text(options, checked, extensions);
  if (options.svg.empty()) return base::ExitCode::done;
  base::write_file(options.svg, mesh_svg(checked.stages.front().layout));
  return base::ExitCode::done;
}

}  // namespace

void add_validate(const Program& program) {
  const Command command =
      program.root.add_command("validate", "Check a recipe, and print parameters, FLOPs and memory");
  auto options = std::make_shared<ValidateArguments>();
  command.add_option("recipe", &options->recipe, "YAML recipe").required().path();
  command.add_option("overrides", &options->overrides,
                     "key.path=value, applied to the recipe; cluster.key.path=value, applied to the cluster");
  add_include_root(command, options->include_root);
  const Option world =
      command
          .add_option("--world", &options->world,
                      "number of ranks for which to check the recipe; 0: the smallest number that the layout needs")
          .legal(whole_number(0, 1 << 24));
  const Option nearest =
      command
          .add_flag("--nearest", options->nearest,
                    "print the legal layout nearest to the recipe's layout, on at most --world ranks: the number of "
                    "ranks, the run directory, the number of steps, then each key that changes")
          .needs(world);
  command.add_option("--at-least", &options->at_least, "smallest number of ranks that --nearest may choose")
      .needs(nearest)
      .legal(whole_number(1, 1 << 24));
  command
      .add_option(
          "--cluster", &options->cluster,
          "YAML of a cluster, measured or described; validate then also estimates latency, throughput and MFU of a "
          "step on this cluster")
      .path();
  const Option mesh = command.add_flag("--mesh", options->mesh, "print the ranks of each group");
  command.add_option("--svg", &options->svg, "SVG file to write, with a picture of the mesh").needs(mesh).path();
  command.add_flag("--run-dir", options->run_dir, "only print the run directory, for scripts");
  command.add_flag("--json", options->json,
                   "print one JSON object; for an invalid recipe, its problems with file, line, key and message");
  command.run(on_one_rank(command, [program, options] {
    ValidateArguments arguments = *options;
    DividedOverrides overrides = divided(options->overrides);
    arguments.overrides = std::move(overrides.recipe), arguments.cluster_overrides = std::move(overrides.cluster);
    const auto run = [&] { return validate(arguments, program.extensions); };
    return arguments.json ? with_json_problems(arguments.recipe, arguments.overrides, run) : run();
  }));
}

}  // namespace hexad::app
