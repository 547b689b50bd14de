#include <chrono>

#include <fmt/core.h>

#include "layers/model_size.h"
#include "parallel/comm/world.h"
#include "tools/hexad/agreement.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/usage.h"
#include "tools/hexad/run_directory.h"
#include "tools/hexad/verify/minimal.h"
#include "tools/hexad/verify/outcome_text.h"
#include "tools/hexad/verify/scratch_folder.h"
#include "tools/hexad/verify/selection.h"
#include "tools/hexad/verify/shrink.h"

namespace hexad::app {
namespace {

using namespace verify;

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  int world = 0;
  std::string layouts = "all";
  int steps = 2;
  bool mpi = false, shrink = false;
  std::optional<uint64_t> jitter;
  uint64_t seed = 1;
  double timeout = 300;
};

struct Loaded {
  Recipe recipe;
  std::vector<std::string> changes;
};

Loaded load(const Options& o, const Registry& registry) {
  std::vector<std::string> overrides = o.overrides;
  const auto alone = alone_overrides();  // the layout is what varies
  overrides.insert(overrides.begin(), alone.begin(), alone.end());
  Recipe recipe = load_recipe(config::load(o.recipe, overrides), registry, 0);
  complete(recipe, 1);
  if (!o.shrink) return {std::move(recipe), {}};
  Shrunk small = verify::shrink(recipe, o.world, registry);
  return {std::move(small.recipe), std::move(small.changes)};
}

// What repeats one layout.
std::string command_for(const Options& o, const Variant& v) {
  std::string text = fmt::format("hexad verify {}", o.recipe);
  for (const std::string& override : o.overrides) text += fmt::format(" '{}'", override);
  text += fmt::format(" --world {} --layouts {} --steps {}", v.mesh.world(), v.text(), o.steps);
  if (o.shrink) text += " --shrink";
  if (o.jitter) text += fmt::format(" --jitter {}", *o.jitter);
  return o.mpi ? fmt::format("mpirun -np {} {} --mpi", v.mesh.world(), text) : text;
}

void print_subject(const Options& o, const Loaded& loaded, const Subject& subject) {
  const auto& r = subject.recipe();
  fmt::print("{}: {} parameters, {} tokens a step, {} step{}, f64\n", o.recipe, layers::model_size(r.model).parameters,
             r.batch.global * r.model.context, subject.steps(), subject.steps() == 1 ? "" : "s");
  for (const std::string& change : loaded.changes) fmt::print("  shrunk: {}\n", change);
  fmt::print("data: {}\n", subject.source_text());
  fmt::print("oracle: one rank. Tolerance: {:.1e} of a tensor's root mean square or of the element, counts exact\n",
             subject.tolerance());
  if (o.jitter) fmt::print("communication is delayed at random, seed {}\n", *o.jitter);
}

// How one layout is run, and who prints.
struct Runner {
  std::function<Outcome(const Variant&)> run;
  Ranks ranks;  // in the search for the smallest failure
  bool prints;
};

ExitCode report(const Options& o, const Subject& subject, const Selection& selection, const Runner& runner) {
  const auto start = std::chrono::steady_clock::now();
  const auto say = [&](const std::string& text) {
    if (!runner.prints) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  say(selection.text + "\n\n" + table_head() + "\n");
  std::vector<Outcome> failures;
  Finding worst;
  for (const Variant& v : selection.runs) {
    Outcome outcome = runner.run(v);
    say(table_row(outcome) + "\n");
    if (!outcome.agrees())
      failures.push_back(std::move(outcome));
    else if (outcome.comparison.worst.relative > worst.relative)
      worst = outcome.comparison.worst;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(fmt::format("\n{} layouts, {} steps each: {} mismatches; worst difference {:.1e}{}; {:.1f} s\n",
                  selection.runs.size(), subject.steps(), failures.size(), worst.relative,
                  worst.what.empty() ? "" : ", " + worst.what, seconds));
  if (failures.empty()) return ExitCode::done;

  say("\nlooking for the smallest layout that fails ...\n");
  Outcome smallest = failures.front();
  minimal_failure(
      failures.front().variant,
      [&](const Variant& v) {
        if (!subject.illegal(v).empty()) return false;
        Outcome outcome = runner.run(v);
        if (outcome.agrees()) return false;
        smallest = std::move(outcome);
        return true;
      },
      runner.ranks);
  say(fmt::format("smallest failing layout, of {} ranks:\n{}repeat: {}\n", smallest.variant.mesh.world(),
                  explanation(smallest), command_for(o, smallest.variant)));
  return ExitCode::numeric;
}

ExitCode verify_with_threads(const Options& o, const Registry& registry) {
  if (comm::announced_world_size() > 1)
    fail(ExitCode::usage,
         "hexad verify was started by mpirun or srun; add --mpi, or start it alone: ranks are threads then");
  const ScratchFolder scratch;
  const Loaded loaded = load(o, registry);
  const Subject subject(loaded.recipe, registry, o.steps, scratch.path());
  print_subject(o, loaded, subject);
  const Selection selection = select(
      o.layouts, o.world, [&](const Variant& v) { return subject.illegal(v); }, o.seed);
  const Oracle oracle = compute_oracle(subject);
  const ThreadRuns how{.jitter = o.jitter, .seconds = o.timeout};
  return report(o, subject, selection,
                {.run = [&](const Variant& v) { return run_in_child(subject, oracle, v, how); },
                 .ranks = Ranks::may_leave,
                 .prints = true});
}

ExitCode verify_with_processes(const Options& o, const Registry& registry) {
  comm::CommEngine::Options engine;
  engine.guards.watchdog_seconds = o.timeout;
  if (o.jitter) engine.jitter = {.seed = *o.jitter, .max_delay = longest_delay};
  return on_all_ranks(
      [&](comm::World& world) {
        if (world.size() != o.world)
          fail(ExitCode::usage, "--world ", o.world, " --mpi needs ", o.world, " processes, but there are ",
               world.size(), ": mpirun -np ", o.world, " hexad verify ...");
        Loaded loaded;
        load_on_all_ranks(world, [&] {
          loaded = load(o, registry);
          return loaded.recipe;
        });
        device::DeviceContext context;
        std::optional<ScratchFolder> scratch;
        if (world.rank() == 0) scratch.emplace();
        const std::string folder = broadcast_text(scratch ? scratch->path() : "", 0, world.group(), context);
        const Subject subject(loaded.recipe, registry, o.steps, folder);
        if (world.rank() == 0) print_subject(o, loaded, subject);
        const Selection selection = select(
            o.layouts, o.world, [&](const Variant& v) { return subject.illegal(v); }, o.seed);
        const Oracle oracle = compute_oracle(subject, world.rank() == 0 ? Saves::yes : Saves::no);
        world.group().barrier(context.compute()).wait();  // its checkpoint is there
        const ExitCode code =
            report(o, subject, selection,
                   {.run = [&](const Variant& v) { return run_in_world(subject, oracle, v, world.group()); },
                    .ranks = Ranks::fixed,
                    .prints = world.rank() == 0});
        world.group().barrier(context.compute()).wait();  // nobody needs the folder any more
        return code;
      },
      engine);
}

ExitCode verify_recipe(Options o, const Registry& registry) {
  if (o.world == 0) o.world = o.mpi ? comm::announced_world_size() : 4;
  return o.mpi ? verify_with_processes(o, registry) : verify_with_threads(o, registry);
}

}  // namespace

void add_verify(CommandLine& line) {
  auto* command = line.app.add_subcommand("verify", "Show that no parallel layout changes what a recipe computes");
  auto options = std::make_shared<Options>();
  command->add_option("recipe", options->recipe, "YAML recipe")->required();
  command->add_option("overrides", options->overrides, "key.path=value, applied to the recipe");
  command->add_option("--world", options->world, "number of ranks; 0: 4, or the processes there are with --mpi")
      ->check(whole_number(0, 64));
  command->add_option("--layouts", options->layouts,
                      "all: every mesh, options pairwise; a number: so many of these; or a list, such as "
                      "'tp=2,cp=2;pp=2,ep=4,zero=1'");
  command->add_option("--steps", options->steps, "optimizer steps of every run")->check(whole_number(1, 100));
  command->add_flag("--mpi", options->mpi, "ranks are the processes of mpirun or srun, not threads");
  command->add_flag("--shrink", options->shrink, "verify a small model of the same kind");
  command->add_option("--jitter", options->jitter, "seed of random delays in communication");
  command->add_option("--seed", options->seed, "of the choice of options and samples");
  command->add_option("--timeout", options->timeout, "seconds after which a run is given up")->check(number_above(0));
  command->callback([&line, options] { line.exit_code = verify_recipe(*options, line.registry); });
}

}  // namespace hexad::app
