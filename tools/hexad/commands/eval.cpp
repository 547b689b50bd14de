#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/units.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/telemetry/progress_sink.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/plan/memory_check.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/process/cores.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::app {

using namespace base;

using namespace train;

namespace {

struct Options {
  std::string run, step = "auto";
  std::vector<std::string> overrides;
  int64_t sequences = 0;
  bool json = false;
};

void print_json(const Options& options, int64_t step, const Evaluation& e, bool has_bytes) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  const nlohmann::ordered_json json{
      {"run", options.run},
      {"step", step},
      {"heldout_loss", number(e.loss)},
      {"bits_per_byte", has_bytes ? number(e.bits_per_byte) : nlohmann::ordered_json(nullptr)},
      {"tokens", e.tokens},
      {"seconds", number(e.seconds)},
      {"tokens_per_second", number(static_cast<double>(e.processed) / e.seconds)}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

ExitCode run_eval(const Options& options, const Extensions& extensions, comm::World& world) {
  // A single rank holds the whole model, even if the run had another layout.
  std::vector<std::string> overrides = world.size() == 1 ? one_rank_overrides() : std::vector<std::string>{};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  std::optional<base::FileWork::Phase> phase(std::in_place, world.file_work(), "reading " + options.run);
  auto [recipe, checkpoint] = open_run(options.run, overrides, options.step, extensions, world.file_work());
  complete(recipe, find_cores(world).of_rank);
  world.set_guards(guards_of(recipe.distributed));
  order_traffic(world, recipe.distributed);
  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  const auto data = data::open_training_data(recipe.data,
                                             {.context = recipe.model.context,
                                              .vocab_size = recipe.model.vocab,
                                              .seed = recipe.train.seed,
                                              .work = world.file_work()},
                                             extensions.sources);
  if (!data.heldout)
    fail(ExitCode::usage,
         "the recipe's data have no held-out part; prepare the dataset with --heldout, or name another dataset");
  if (!plan::fits_in_memory(recipe, extensions, world, plan::ModelUse::evaluation)) return ExitCode::resource;
  ModelInstance instance(recipe, extensions, world.group());
  Checkpointer::load_weights(checkpoint, instance);
  phase.reset();
  const auto bytes = data.tokenizer ? data::bytes_per_id(*data.tokenizer) : std::vector<int32_t>{};
  const Evaluation e = evaluate(instance, recipe, *data.heldout, options.sequences, bytes);
  if (world.rank() != 0) return ExitCode::done;
  if (options.json) {
    print_json(options, checkpoint.step(), e, data.tokenizer != nullptr);
    return ExitCode::done;
  }
  fmt::print("step {}: {}\n", checkpoint.step(), telemetry::heldout_text(metrics_of(e, checkpoint.step())));
  fmt::print("forward only: {}\n", human_count(static_cast<double>(e.processed) / e.seconds) + " tokens/s");
  return ExitCode::done;
}

}  // namespace

void add_eval(const Program& program) {
  const Command command =
      program.root.add_command("eval", "Evaluate the held-out loss of a run, and measure the throughput of forward");
  auto options = std::make_shared<Options>();
  command.add_option("run", &options->run, "run directory, or the folder of a checkpoint").required();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the run's recipe");
  command.add_option("--step", &options->step, "checkpoint: auto (the newest good one) or a step")
      .legal(auto_or_step());
  command.add_option("--sequences", &options->sequences, "sequences to evaluate, spread over the held-out set; 0: all")
      .legal(whole_number(0));
  command.add_flag("--json", options->json, "print one JSON object");
  command.run([program, options] {
    return on_all_ranks([&](comm::World& world) { return run_eval(*options, program.extensions, world); });
  });
}

}  // namespace hexad::app
