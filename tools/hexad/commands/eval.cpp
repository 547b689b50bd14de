#include <chrono>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/units.h"
#include "framework/data/training_data.h"
#include "framework/telemetry/progress_sink.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/eval_choices.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/trained_run.h"
#include "tools/hexad/usage.h"
#include "tools/plan/memory_check.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/recipe/data_on_ranks.h"

namespace hexad::app {

using namespace base;

using namespace train;

namespace {

struct EvalArguments {
  std::string run, step = "auto", choices, items;
  std::vector<std::string> overrides;
  int64_t sequences = 0;
  bool json = false;
};

void print_json(const EvalArguments& options, const TrainedRun& run, const Evaluation& e, bool has_bytes) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  const nlohmann::ordered_json json{
      {"run", options.run},
      {"step", run.checkpoint.step()},
      {"layout", run.layout},
      {"heldout_loss", number(e.loss)},
      {"bits_per_byte", has_bytes ? number(e.bits_per_byte) : nlohmann::ordered_json(nullptr)},
      {"tokens", e.tokens},
      {"seconds", number(e.seconds)},
      {"tokens_per_second", number(static_cast<double>(e.processed) / e.seconds)}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// Returns this rank's part of the model, with the weights of a run.
std::unique_ptr<ModelInstance> loaded(TrainedRun& run, const Extensions& extensions, comm::World& world) {
  auto instance = std::make_unique<ModelInstance>(run.recipe, extensions, world.group());
  Checkpointer::load_weights(run.checkpoint, *instance);
  return instance;
}

TrainedRun opened(const EvalArguments& options, const Extensions& extensions, comm::World& world) {
  TrainedRun run = open_trained_run({options.run, options.overrides, options.step, world.size()},
                                    TrainedUse::evaluation, extensions, world);
  if (const std::string replaced = replaced_data(run, options.overrides); !replaced.empty())
    fail(ExitCode::data, replaced);
  return run;
}

ExitCode eval_heldout(const EvalArguments& options, const Extensions& extensions, comm::World& world) {
  std::optional<base::FileWork::Phase> phase(std::in_place, world.file_work(), "reading " + options.run);
  TrainedRun run = opened(options, extensions, world);
  const Recipe& recipe = run.recipe;
  const data::TrainingData data = open_data_on_ranks(recipe, extensions, world.group(), world.file_work());
  if (!data.heldout)
    fail(ExitCode::usage,
         "the recipe's data have no held-out part to evaluate; prepare the dataset with --heldout SHARE, or choose "
         "another dataset with data.dataset=FOLDER");
  if (!plan::fits_in_memory(recipe, extensions, world, plan::ModelUse::evaluation)) return ExitCode::resource;
  const auto instance = loaded(run, extensions, world);
  phase.reset();
  const auto bytes = data.tokenizer ? data::bytes_per_id(*data.tokenizer) : std::vector<int32_t>{};
  const Evaluation e = evaluate(*instance, recipe, *data.heldout, options.sequences, bytes);
  if (world.rank() != 0) return ExitCode::done;
  if (options.json) {
    print_json(options, run, e, data.tokenizer != nullptr);
    return ExitCode::done;
  }
  fmt::print("step {}: {}\n", run.checkpoint.step(), telemetry::heldout_text(metrics_of(e, run.checkpoint.step())));
  fmt::print("forward only: {}\n", human_count(static_cast<double>(e.processed) / e.seconds) + " tokens/s");
  return ExitCode::done;
}

ExitCode eval_choices(const EvalArguments& options, const Extensions& extensions, comm::World& world) {
  std::optional<base::FileWork::Phase> phase(std::in_place, world.file_work(), "reading " + options.run);
  ChoiceEvaluation e{.run = options.run, .file = options.choices, .items = read_choice_items(options.choices)};
  require_same_file(world, options.choices);
  if (world.rank() == 0 && !options.items.empty()) require_items_path(options.items, options.choices);
  TrainedRun run = opened(options, extensions, world);
  require_decoder(run.recipe, options.run, "predict the next token");
  const auto tokenizer = tokenizer_of(run.recipe, options.run, "read the choices");
  if (!plan::fits_in_memory(run.recipe, extensions, world, plan::ModelUse::evaluation)) return ExitCode::resource;
  const auto instance = loaded(run, extensions, world);
  phase.reset();
  const auto start = std::chrono::steady_clock::now();
  e.scores = score_choices(*instance, run.recipe, *tokenizer, e.items, options.choices);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  e.layout = run.layout, e.step = run.checkpoint.step();
  if (world.rank() != 0) return ExitCode::done;
  print_choices(e, options.json);
  if (!options.items.empty()) write_choice_items(e, options.items);
  return ExitCode::done;
}

}  // namespace

void add_eval(const Program& program) {
  const Command command = program.root.add_command(
      "eval", "Evaluate a run's held-out loss or its answers to questions, and measure the forward throughput");
  auto options = std::make_shared<EvalArguments>();
  command.add_option("run", &options->run, "run directory, or the folder of a checkpoint").required().path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the run's recipe");
  command.add_option("--step", &options->step, "checkpoint: auto (the newest good one) or a step")
      .legal(auto_or_step());
  const Option sequences = command
                               .add_option("--sequences", &options->sequences,
                                           "number of sequences to evaluate, spread over the held-out set; 0: all")
                               .legal(whole_number(0));
  const Option choices =
      command
          .add_option("--choices", &options->choices,
                      "file of questions, one JSON object per line with context (or query), choices and gold; prints "
                      "the share of right answers instead of the held-out loss")
          .path();
  command.add_option("--items", &options->items, "file to write with the answer to each question; needs --choices")
      .path()
      .needs(choices);
  command.add_flag("--json", options->json, "print one JSON object");
  command.run([program, options, sequences] {
    if (sequences.given() && !options->choices.empty())
      fail(ExitCode::usage,
           "--sequences selects held-out text, but --choices evaluates all questions of its file; remove one of them");
    return on_all_ranks([&](comm::World& world) {
      return options->choices.empty() ? eval_heldout(*options, program.extensions, world)
                                      : eval_choices(*options, program.extensions, world);
    });
  });
}

}  // namespace hexad::app
