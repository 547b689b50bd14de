#include <algorithm>

#include "framework/base/counted.h"
#include "framework/base/utf8.h"
#include "framework/data/dataset_paths.h"
#include "framework/data/tokenizer.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/telemetry/text_output.h"
#include "parallel/comm/self_group.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/plan/memory_check.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/model/generation.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"

namespace hexad::app {

using namespace base;
using namespace layers;

using namespace train;

namespace {

struct Options {
  std::string run, prompt, step = "auto";
  std::vector<std::string> overrides;
  SamplingOptions sampling;
};

ExitCode run_generate(Options options, const Extensions& extensions) {
  const auto one_rank = one_rank_overrides();
  options.overrides.insert(options.overrides.end(), one_rank.begin(), one_rank.end());
  auto [recipe, checkpoint] = open_run(options.run, options.overrides, options.step, extensions);
  if (recipe.model.kind == ModelKind::encoder)
    fail(ExitCode::usage, "'", options.run,
         "' is a run of an encoder, which does not generate text; expected model.kind: decoder");
  if (recipe.data.registered())
    fail(ExitCode::usage, "'", options.run, "' was trained on the source ", recipe.data.source_name(),
         ", which has no tokenizer, so it cannot generate text");
  complete(recipe, find_cores().of_rank);
  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  const std::string folder = recipe.data.dataset.empty() ? recipe.data.mixture.front().dataset : recipe.data.dataset;
  const auto tokenizer = data::load_tokenizer(data::tokenizer_path(folder));

  const plan::MemoryFit fit = plan::memory_fit_on_this_machine(recipe, extensions, 1, plan::ModelUse::generation);
  if (fit.verdict == plan::MemoryFit::Verdict::too_much) fail(ExitCode::resource, "the model does not fit: ", fit.text);
  const comm::SelfGroup alone;
  ModelInstance instance(recipe, extensions, alone);
  Checkpointer::load_weights(checkpoint, instance);
  const std::vector<int32_t> ids = prompt_of(*tokenizer, options.prompt);
  if (const std::string cut = warn_of_cut(*tokenizer, ids, recipe.model.context); !cut.empty()) say("warning: " + cut);
  options.sampling.stop_id = tokenizer->end_of_document();
  options.sampling.vocabulary = tokenizer->vocab_size();
  telemetry::TextOutput out(1);
  base::Utf8Pieces text;  // a token may end inside a character
  out.write(text.add(options.prompt));
  const auto written =
      generate(instance, ids, options.sampling, [&](int32_t id) { out.write(text.add(tokenizer->bytes_of(id))); });
  out.write(text.finish() + "\n");
  const int64_t seen = std::min(std::ssize(ids), longest_prompt(recipe.model.context));
  if (std::ssize(written) < options.sampling.max_tokens && seen + std::ssize(written) > recipe.model.context)
    say(cat("the model's context (model.context: ", recipe.model.context, ") is full after ", std::ssize(written),
            " of ", counted(options.sampling.max_tokens, "token")));
  return ExitCode::done;
}

}  // namespace

void add_generate(const Program& program) {
  const Command command = program.root.add_command("generate", "Continue a text with a trained model");
  auto options = std::make_shared<Options>();
  command.add_option("run", &options->run, "run directory, or the folder of a checkpoint").required();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the run's recipe");
  command.add_option("--prompt", &options->prompt, "text to continue").required();
  command.add_option("--step", &options->step, "checkpoint: auto (the newest good one) or a step")
      .legal(auto_or_step());
  command.add_option("--max-tokens", &options->sampling.max_tokens, "tokens to generate").legal(whole_number(1));
  command.add_option("--temperature", &options->sampling.temperature, "temperature; 0: always the most probable token")
      .legal(number(0));
  command.add_option("--top-k", &options->sampling.top_k, "choose among this number of most probable tokens; 0: all")
      .legal(whole_number(0));
  command
      .add_option("--top-p", &options->sampling.top_p,
                  "choose among the fewest most probable tokens whose probabilities reach this sum")
      .legal(number(0, 1));
  command.add_option("--seed", &options->sampling.seed, "seed of the random choices").legal(whole_number(0));
  command.run(on_one_rank(command, [program, options] { return run_generate(*options, program.extensions); }));
}

}  // namespace hexad::app
