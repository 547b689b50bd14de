#include <fmt/core.h>

#include <cstdlib>
#include <map>

#include "framework/config/document.h"
#include "framework/device/card_memory.h"
#include "framework/device/kernel_loading.h"
#include "framework/kernels/cpu/parallel.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/text_collectives.h"
#include "parallel/comm/world.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/usage.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/planted_fault.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/job.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/stage_documents.h"
#include "tools/train/recipe/traffic_options.h"
#include "tools/verify/child_runs.h"
#include "tools/verify/exactness.h"
#include "tools/verify/oracle_keeper.h"
#include "tools/verify/scratch_folder.h"
#include "tools/verify/session.h"
#include "tools/verify/shrink.h"
#include "tools/verify/subject_kind.h"

namespace hexad::app {

using namespace base;

using namespace train;

namespace {

using namespace verify;

struct VerifyArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string include_root;
  std::string device;  // replaces the recipe's device; empty: the recipe's device
  int64_t stage = 0;   // stage of training; 0: the recipe has no stages
  int world = 0;
  std::string layouts = "all";
  std::string precision = "f64";
  int steps = 2;
  bool mpi = false, shrink = false;
  std::optional<uint64_t> jitter;
  uint64_t seed = 1;
  double timeout = ThreadRuns{}.seconds;
};

struct Loaded {
  Recipe recipe;
  std::vector<std::string> changes;
};

Loaded load(const VerifyArguments& o, const Extensions& extensions) {
  std::vector<std::string> overrides = o.overrides;
  const auto alone = one_rank_overrides();  // `verify` varies the layout, so the recipe's own layout is replaced
  overrides.insert(overrides.begin(), alone.begin(), alone.end());
  config::Document document =
      document_of_stage(with_current_names(config::load(o.recipe, overrides, o.include_root), say), o.stage);
  Recipe recipe = load_recipe(std::move(document), extensions, 0, say, enum_named<device::DeviceKind>(o.device));
  complete(recipe, 1);
  if (!o.shrink) return {std::move(recipe), {}};
  Shrunk small = verify::shrink(recipe, o.world, extensions);
  return {std::move(small.recipe), std::move(small.changes)};
}

// Returns a command that verifies only the layout of `v`.
std::string command_for(const VerifyArguments& o, const Variant& v) {
  std::string text = fmt::format("{} verify {}", program_name(), shell_word(o.recipe));
  text += recipe_words(o);
  if (o.stage > 0) text += fmt::format(" --stage {}", o.stage);
  if (!o.device.empty()) text += fmt::format(" --device {}", o.device);
  text += fmt::format(" --world {} --layouts {} --steps {}", v.mesh.world(), v.text(), o.steps);
  if (o.shrink) text += " --shrink";
  if (o.jitter) text += fmt::format(" --jitter {}", *o.jitter);
  if (o.timeout != ThreadRuns{}.seconds) text += fmt::format(" --timeout {}", o.timeout);
  return o.mpi ? fmt::format("{} {} --mpi", launcher(v.mesh.world()), text) : text;
}

// Prints the name and the tolerance of each kind of run that is less exact than f64.
void print_bounds(const Subject& subject) {
  std::map<std::string, Exactness> bounds;
  for (const SubjectKind& kind : subject_kinds())
    for (const char* rows : {"slot", "token"}) {
      Variant v;
      v.choose("subject", kind.name);
      v.choose("rows", rows);
      if (!subject.illegal(v).empty()) continue;
      const Exactness e = exactness_of(subject.recipe_for(v));
      bounds.emplace(e.why, e);
    }
  for (const auto& [why, e] : bounds)
    if (why != "f64")
      fmt::print("  {}: {:.1e} {}\n", why, e.tolerance,
                 e.follows_routing()
                     ? "for the root mean square of a tensor's differences; the experts are those that the oracle chose"
                     : "relative to the larger of the tensor's root mean square and the element");
}

void print_subject(const VerifyArguments& o, const Loaded& loaded, const Subject& subject) {
  const auto& r = subject.recipe();
  fmt::print("{}: {} parameters, {} tokens per step, {} step{}, {}, optim.eps {}\n", o.recipe,
             layers::parameter_counts(r.model, subject.extensions()).parameters, r.batch.global * r.model.context,
             subject.steps(), subject.steps() == 1 ? "" : "s", o.precision, r.optim.eps);
  for (const std::string& change : loaded.changes) fmt::print("  shrunk: {}\n", change);
  fmt::print("data: {}\n", subject.source_text());
  fmt::print(
      "oracle: one rank{}. Tolerance: {:.1e} relative to the larger of the tensor's root mean square and the element; "
      "counts must be equal\n",
      r.device == device::DeviceKind::cpu ? "" : fmt::format(" on the CPU, layouts on device: {}", name_of(r.device)),
      exactness_of(subject.oracle_recipe()).tolerance);
  print_bounds(subject);
  if (o.jitter) fmt::print("communication is delayed at random, seed {}\n", *o.jitter);
}

void print_at_once(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// Returns `v` with the subject that --precision names. Returns `v` unchanged for f64, the oracle's precision.
Variant in_precision(const VerifyArguments& o, Variant v) {
  if (o.precision != "f64") v.choose("subject", o.precision);
  return v;
}

// Throws Error(usage) if HEXAD_FAULT plants a fault without effect, because `verify` would seem to miss the fault.
void check_fault(const VerifyArguments& o, const Subject& subject) {
  const comm::SelfGroup self;
  const ModelInstance model(subject.oracle_recipe(), subject.extensions(), self);
  std::vector<std::string> tensors;
  for (const auto& p : model.parameters) tensors.push_back(p->name());
  check_gradient_fault(tensors, o.world, o.steps);
}

Illegal illegal_for(const VerifyArguments& o, const Subject& subject) {
  return [&](const Variant& v) {
    if (o.mpi && v["transport"] != "rendezvous")
      return std::string("transport: must be rendezvous with --mpi, because messages go through MPI");
    // Processes access each other's memory only if NCCL connects their GPUs. These connections are not known here.
    const bool chosen = o.layouts.find('=') != std::string::npos;
    if (o.mpi && v["window"] != "no" && !(chosen && subject.recipe().device == device::DeviceKind::cuda))
      return std::string("window: must be no with --mpi, unless --layouts is a list and the device is cuda");
    if (o.precision != "f64" && v["subject"] != "own" && v["subject"] != o.precision)
      return "subject: must be own, or the value of --precision, " + o.precision;
    return subject.illegal(in_precision(o, v));
  };
}

Selection selected(const VerifyArguments& o, const Subject& subject) {
  Selection selection = select(o.layouts, o.world, illegal_for(o, subject), o.seed);
  for (Variant& v : selection.runs) v = in_precision(o, std::move(v));
  return selection;
}

ExitCode run_selected(const VerifyArguments& o, const Subject& subject, const Selection& selection, Session session) {
  session.illegal = illegal_for(o, subject);
  session.command = [&](const Variant& v) { return command_for(o, v); };
  return run_all(selection, session) ? ExitCode::done : ExitCode::numeric;
}

// Opens the device once in a child process, so that a missing device is reported once, not for every layout. This
// process must not open a GPU, because its children could not use the GPU after a fork. Returns the number of GPUs (one
// or several) that ranks use if the ranks are threads.
CardsOfThreads require_device(device::DeviceKind kind, double seconds) {
  const auto open = [&] {
    const std::string description = device::DeviceContext(device::ContextOptions{.kind = kind}).description();
    const bool several =
        kind == device::DeviceKind::cuda && device::cuda_card_memory(0).id != device::cuda_card_memory(1).id;
    return (several ? "+" : "1") + description;
  };
  const Isolated opened = run_isolated(open, seconds);
  if (!opened.failure.empty()) fail(opened.code.value_or(ExitCode::resource), opened.failure);
  fmt::print("device: {}\n", opened.text.substr(1));
  return opened.text.front() == '+' ? CardsOfThreads::several : CardsOfThreads::one;
}

// Prints a line about the path of tensors between threads on several GPUs. Prints nothing if threads use one GPU.
void print_path(const Recipe& r, CardsOfThreads cards) {
  if (cards == CardsOfThreads::one) return;
  fmt::print("{}\n", r.distributed.device_collectives == comm::DeviceCollectives::nccl
                         ? "ranks are threads and use NCCL: CUDA calls of a rank may wait for the GPUs of other ranks, "
                           "so layouts may hang; use --mpi, or distributed.device_collectives: host"
                         : "ranks are threads and exchange tensors through host memory; use --mpi to test NCCL");
}

ExitCode verify_with_threads(const VerifyArguments& o, const Extensions& extensions) {
  kernels::cpu::set_thread_count(1);  // ranks are threads, and a process with kernel threads must not fork
  device::load_kernels_at_start();
  const ScratchFolder scratch;
  const Loaded loaded = load(o, extensions);
  const CardsOfThreads cards = loaded.recipe.device == device::DeviceKind::cpu
                                   ? CardsOfThreads::one
                                   : require_device(loaded.recipe.device, o.timeout);
  print_path(loaded.recipe, cards);
  const Subject subject(loaded.recipe, extensions, o.steps, scratch.path(), cards);
  const Selection selection = selected(o, subject);
  print_subject(o, loaded, subject);
  check_fault(o, subject);
  // Only the process of `keeper` uses `oracles` and `runs`. The child processes of that process use only oracles
  // computed before the fork.
  Oracles oracles(subject);
  ChildRuns runs(subject, [&](const Variant& v) -> const Oracle& { return oracles.of(v); },
                 {.jitter = o.jitter, .seconds = o.timeout});
  OracleKeeper keeper([&](const Variant& v) { return runs.run(v); }, ThreadRuns{}.seconds + o.timeout);
  const auto run = [&](const Variant& v) { return keeper.run(v); };
  return run_selected(o, subject, selection, {.run = run, .ranks = Ranks::may_leave, .print = print_at_once});
}

ExitCode verify_in_world(const VerifyArguments& o, const Extensions& extensions, comm::World& world) {
  if (world.size() != o.world)
    fail(ExitCode::usage, "--world ", o.world, " --mpi needs ", o.world, " processes, but there are ", world.size(),
         "; start them with: ", launcher(o.world), " ", program_name(), " verify ...");
  Loaded loaded;
  load_on_all_ranks(world, [&] {
    loaded = load(o, extensions);
    return loaded.recipe;
  });
  comm::Guards guards = guards_of(loaded.recipe.distributed);
  guards.watchdog_seconds = watchdog_seconds(loaded.recipe, o.timeout);
  world.set_guards(guards);
  const bool first = world.rank() == 0;
  device::DeviceContext context;
  const auto wait_for_ranks = [&] { world.group().barrier(context.compute()).wait(); };
  std::optional<ScratchFolder> scratch;
  if (first) scratch.emplace();
  const std::string folder = broadcast_text(first ? scratch->path() : "", 0, world.group(), context);
  const Subject subject(loaded.recipe, extensions, o.steps, folder, CardsOfThreads::one, world.group().node_of_rank());
  const Selection selection = selected(o, subject);
  if (first) print_subject(o, loaded, subject);
  Oracles oracles(subject, first ? Saves::yes : Saves::no);
  check_fault(o, subject);
  oracles.of(Variant());
  wait_for_ranks();  // now the checkpoint is complete, so other oracles may start from it
  const auto run = [&](const Variant& v) {
    const Oracle& oracle = oracles.of(v);
    wait_for_ranks();  // from here on, all ranks can read the checkpoint
    return run_in_world(subject, oracle, v, world.group());
  };
  const auto print_once = [&](const std::string& text) {
    if (first) print_at_once(text);
  };
  const ExitCode code = run_selected(o, subject, selection, {.run = run, .ranks = Ranks::fixed, .print = print_once});
  wait_for_ranks();  // after this, rank 0 may remove the folder
  return code;
}

ExitCode verify_with_processes(const VerifyArguments& o, const Extensions& extensions) {
  comm::CommEngine::Options engine;
  if (o.jitter) engine.jitter = {.seed = *o.jitter, .max_delay = longest_delay};
  return on_all_ranks([&](comm::World& world) { return verify_in_world(o, extensions, world); }, engine);
}

ExitCode verify_recipe(VerifyArguments o, const Extensions& extensions) {
  // Sets --device from the variable, so that the printed command that repeats a layout contains the device.
  if (const char* wanted = std::getenv("HEXAD_DEVICE"); wanted && o.device.empty()) o.device = wanted;
  if (o.world == 0) o.world = o.mpi ? comm::announced_world_size() : 4;
  return o.mpi ? verify_with_processes(o, extensions) : verify_with_threads(o, extensions);
}

}  // namespace

void add_verify(const Program& program) {
  const Command command =
      program.root.add_command("verify", "Check that no parallel layout changes the results of a recipe");
  auto options = std::make_shared<VerifyArguments>();
  command.add_option("recipe", &options->recipe, "YAML recipe").required().path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the recipe");
  add_include_root(command, options->include_root);
  add_stage(command, options->stage);
  std::vector<std::string_view> devices;
  for (const auto& [kind, name] : enum_names(device::DeviceKind{})) devices.push_back(name);
  command
      .add_option(
          "--device", &options->device,
          "device of the layouts: cpu, emulated or cuda; by default HEXAD_DEVICE, or the recipe's device. The oracle "
          "is always one rank on the CPU")
      .legal(one_of(devices));
  command.add_option("--world", &options->world, "number of ranks; 0: 4 ranks, or with --mpi the number of processes")
      .legal(whole_number(0, 64));
  command.add_option(
      "--layouts", &options->layouts,
      "all: every mesh, and every pair of option values; a number: this number of random layouts; or a list, "
      "such as 'tp=2,cp=2;pp=2,ep=4,zero=1'");
  command
      .add_option("--precision", &options->precision,
                  "precision of the layouts; with f32 and bf16, layouts use the experts that the oracle chose "
                  "(subject=f32, subject=bf16)")
      .legal(one_of({"f64", "f32", "bf16"}));
  command.add_option("--steps", &options->steps, "optimizer steps of every run").legal(whole_number(1, 100));
  command.add_flag("--mpi", options->mpi, "use the processes of mpirun or srun as ranks, instead of threads");
  command.add_flag("--shrink", options->shrink, "verify a smaller model with the same structure");
  command.add_option("--jitter", &options->jitter, "seed of random delays in communication");
  command.add_option("--seed", &options->seed, "seed for the choice of options and samples");
  command
      .add_option(
          "--timeout", &options->timeout,
          "seconds after which a run is abandoned. A hang is found earlier: after distributed.watchdog_seconds, or "
          "after a quarter of --timeout if that is shorter (watchdog_seconds 0: never)")
      .legal(number_above(0));
  command.run([program, command, options] {
    const auto body = [&] { return verify_recipe(*options, program.extensions); };
    return options->mpi ? body()
                        : on_one_rank(command, body,
                                      "add --mpi, or start it without the launcher, so that its ranks are threads")();
  });
}

}  // namespace hexad::app
