#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/utf8.h"
#include "framework/data/chat_form.h"
#include "framework/data/chat_template.h"
#include "framework/data/conversation.h"
#include "framework/data/end_ids.h"
#include "framework/data/form_marks.h"
#include "framework/telemetry/text_output.h"
#include "parallel/comm/text_collectives.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/prompts.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/trained_run.h"
#include "tools/hexad/usage.h"
#include "tools/interop/find_origin.h"
#include "tools/plan/memory_check.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/model/generation.h"
#include "tools/train/model/token_pass.h"
#include "tools/train/process/say.h"

namespace hexad::app {

using namespace base;

using namespace train;

namespace {

struct GenerateArguments {
  std::string run, prompt_file, system, chat_form, step = "auto";
  std::vector<std::string> prompts, overrides;
  SamplingOptions sampling;
  bool json = false;
};

std::vector<Prompt> prompts_of(const GenerateArguments& options) {
  const bool chat = !options.chat_form.empty();
  if (options.prompts.empty() && options.prompt_file.empty())
    fail(ExitCode::usage, "--prompt or --prompt-file is required: a text to continue, or a file with several texts");
  if (!chat && !options.system.empty())
    fail(ExitCode::usage, "--system (", options.system, ") needs --chat-form, the form of the model's conversations");
  std::vector<Prompt> prompts;
  for (const std::string& text : options.prompts) prompts.push_back({.text = text, .system = options.system});
  if (options.prompt_file.empty()) return prompts;
  std::ranges::move(read_prompts(options.prompt_file, options.system, chat), std::back_inserter(prompts));
  return prompts;
}

// Returns the beginning of a message about a prompt: "prompt 2: " for index 1. Returns an empty text if there is a
// single prompt.
std::string name_of_prompt(size_t prompt, size_t prompts) {
  return prompts > 1 ? cat("prompt ", prompt + 1, ": ") : "";
}

void warn_of_cuts(const data::Tokenizer& tokenizer, const std::vector<std::vector<int32_t>>& ids, int64_t context) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (const std::string cut = warn_of_cut(tokenizer, ids[i], context); !cut.empty())
      say(cat("warning: ", name_of_prompt(i, ids.size()), cut));
}

// Returns the text before a continuation: the prompt, or nothing before an answer to a chat.
std::string text_before(const GenerateArguments& options, const Prompt& prompt) {
  return options.chat_form.empty() ? prompt.text : "";
}

void print_json(const GenerateArguments& options, const TrainedRun& run, const data::Tokenizer& tokenizer,
                const std::vector<Prompt>& prompts, const std::vector<Continuation>& continued) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (size_t i = 0; i < prompts.size(); ++i)
    results.push_back({{"prompt", prompts[i].text},
                       {"tokens", continued[i].ids},
                       {"text", valid_utf8(tokenizer.decode_after(text_before(options, prompts[i]), continued[i].ids))},
                       {"stop", enum_name(continued[i].stop)}});
  const nlohmann::ordered_json json{
      {"run", options.run}, {"step", run.checkpoint.step()}, {"layout", run.layout}, {"results", results}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// Prints each continuation after its prompt, or each answer alone. An empty line separates the texts.
void print_texts(const GenerateArguments& options, const data::Tokenizer& tokenizer, const std::vector<Prompt>& prompts,
                 const std::vector<Continuation>& continued) {
  telemetry::TextOutput out(1);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (i > 0) out.write("\n");
    const std::string before = text_before(options, prompts[i]);
    out.write(valid_utf8(before + tokenizer.decode_after(before, continued[i].ids)) + "\n");
  }
  out.require_written();
}

// Continues one prompt and prints each token as soon as it is chosen.
Continuation stream_text(ModelInstance& instance, const GenerateArguments& options, const data::Tokenizer& tokenizer,
                         const std::string& prompt, const std::vector<std::vector<int32_t>>& ids) {
  const bool prints = instance.mesh.world().rank() == 0;
  telemetry::TextOutput out(1);
  Utf8Pieces text;  // a token may end inside a character
  if (prints) out.write(text.add(prompt));
  bool begins = prompt.empty();  // true while the text is empty
  const auto written = generate_each(instance, ids, options.sampling, [&](size_t, int32_t id) {
    if (!prints) return;
    const std::string bytes(tokenizer.bytes_of(id));
    out.write(text.add(begins ? tokenizer.decode(std::span(&id, 1)) : bytes));
    begins = begins && bytes.empty();
  });
  if (prints) out.write(text.finish() + "\n");
  out.require_written();
  return written.front();
}

void say_full(const GenerateArguments& options, int64_t context, const Continuation& c, const std::string& name = "") {
  if (c.stop == Stop::context)
    say(cat(name, "the model's context (model.context: ", context, ") is full after ", std::ssize(c.ids), " of ",
            counted(options.sampling.max_tokens, "token")));
}

// Returns the conversation form that --chat-form selects; null without this option. Collective.
std::shared_ptr<const data::ConversationForm> form_of(const GenerateArguments& options,
                                                      const io::Checkpoint& checkpoint, const comm::World& world) {
  if (options.chat_form.empty()) return nullptr;
  if (options.chat_form != data::model_form_name) return data::conversation_form(options.chat_form, "");
  const std::string folder = interop::find_origin(checkpoint);
  if (folder.empty())
    fail(ExitCode::usage, options.run,
         ": this run did not start from an imported model, or the import has been removed, so --chat-form model finds "
         "no chat template; choose a named form");
  for (const std::string& file : data::chat_template_files(folder)) require_same_file(world, file);
  return data::conversation_form(options.chat_form, folder);
}

// Returns the ids that end a text, as rank 0 finds them. Rank 0 prints warnings. Collective.
std::vector<int32_t> agreed_stop_ids(const data::Tokenizer& tokenizer, const io::Checkpoint& checkpoint,
                                     const comm::World& world) {
  std::string list;
  if (world.rank() == 0) {
    std::string folder;
    try {
      folder = interop::find_origin(checkpoint);
    } catch (const Error& error) {
      say(cat("warning: the eos_token_id of the imported model is unknown and ends no text: ", error.what()));
    }
    const data::EndIds found = data::end_ids(tokenizer, folder);
    for (const std::string& warning : found.warnings) say("warning: " + warning);
    list = nlohmann::json(found.ids).dump();
  }
  device::DeviceContext host;
  list = comm::broadcast_text(list, 0, world.group(), host);
  return nlohmann::json::parse(list).get<std::vector<int32_t>>();
}

ExitCode run_generate(GenerateArguments options, const Extensions& extensions, comm::World& world) {
  const std::vector<Prompt> prompts = prompts_of(options);
  if (!options.prompt_file.empty()) require_same_file(world, options.prompt_file);
  std::optional<FileWork::Phase> phase(std::in_place, world.file_work(), "reading " + options.run);
  TrainedRun run = open_trained_run({options.run, options.overrides, options.step, world.size()},
                                    TrainedUse::generation, extensions, world);
  const Recipe& recipe = run.recipe;
  require_decoder(recipe, options.run, "generate text");
  require_whole_sequences(recipe.parallel.cp, "generate text");
  const auto tokenizer = tokenizer_of(recipe, options.run, "generate text");
  const auto form = form_of(options, run.checkpoint, world);
  if (form) options.sampling.end_of_turn = end_of_answer(*tokenizer, *form);
  options.sampling.stop_ids = agreed_stop_ids(*tokenizer, run.checkpoint, world);
  // The last token of an answer may contain the beginning of the end mark. The special token at the end of the mark
  // must therefore end the answer, too.
  if (const auto& end = options.sampling.end_of_turn; !end.empty() && tokenizer->bytes_of(end.back()).empty())
    options.sampling.stop_ids.push_back(end.back());
  const int64_t context = recipe.model.context;
  const std::vector<std::vector<int32_t>> ids =
      ids_of_prompts(*tokenizer, form.get(), prompts, {context, recipe.data.packing});
  const int64_t cached = cached_tokens(recipe.model, ids, options.sampling);
  if (!plan::fits_in_memory(recipe, extensions, world, plan::ModelUse::generation, cached)) return ExitCode::resource;
  ModelInstance instance(recipe, extensions, world.group());
  Checkpointer::load_weights(run.checkpoint, instance);
  phase.reset();
  const bool prints = world.rank() == 0;
  if (const std::string replaced = prints ? replaced_data(run, options.overrides) : ""; !replaced.empty())
    say("warning: " + replaced);
  if (prints) warn_of_cuts(*tokenizer, ids, context);
  if (const std::string spelled = data::spelled_marks(options.chat_form, *tokenizer); prints && !spelled.empty())
    say(cat("warning: the tokenizer of ", options.run, " ", spelled));
  options.sampling.vocabulary = tokenizer->vocab_size();
  if (prompts.size() == 1 && !form && !options.json) {
    const Continuation written = stream_text(instance, options, *tokenizer, prompts.front().text, ids);
    if (prints) say_full(options, context, written);
    return ExitCode::done;
  }
  const std::vector<Continuation> written = generate_each(instance, ids, options.sampling);
  if (!prints) return ExitCode::done;
  if (options.json) {
    print_json(options, run, *tokenizer, prompts, written);
    return ExitCode::done;
  }
  print_texts(options, *tokenizer, prompts, written);
  for (size_t i = 0; i < written.size(); ++i) say_full(options, context, written[i], name_of_prompt(i, written.size()));
  return ExitCode::done;
}

}  // namespace

void add_generate(const Program& program) {
  const Command command =
      program.root.add_command("generate", "Continue texts, or answer questions, with a trained model");
  auto options = std::make_shared<GenerateArguments>();
  std::vector<std::string_view> forms;
  for (const data::ChatForm& form : data::chat_forms()) forms.push_back(form.name);
  forms.push_back(data::model_form_name);
  command.add_option("run", &options->run, "run directory, or the folder of a checkpoint").required().path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the run's recipe");
  command.add_option("--prompt", &options->prompts, "text to continue; may be given several times").one_at_a_time();
  command
      .add_option("--prompt-file", &options->prompt_file,
                  "file with one text on each line; each line is a JSON object with the text under \"prompt\" if the "
                  "file's name ends in .jsonl, .ndjson or .json")
      .path();
  command
      .add_option("--chat-form", &options->chat_form,
                  "form of a chat model's conversations: reads the texts as questions, and prints only the answers; "
                  "model is the chat template of the imported model from which the run started")
      .legal(one_of(forms));
  command.add_option("--system", &options->system, "instructions before each question; needs --chat-form");
  command.add_option("--step", &options->step, "checkpoint: auto (the newest good one) or a step")
      .legal(auto_or_step());
  command
      .add_option("--max-tokens", &options->sampling.max_tokens, "maximum number of tokens to generate for each prompt")
      .legal(whole_number(1));
  command.add_option("--temperature", &options->sampling.temperature, "temperature; 0: always the most probable token")
      .legal(number(0));
  command.add_option("--top-k", &options->sampling.top_k, "number of most probable tokens to choose from; 0: all")
      .legal(whole_number(0));
  command
      .add_option("--top-p", &options->sampling.top_p,
                  "choose from the smallest set of most probable tokens with at least this total probability")
      .legal(number(0, 1));
  command.add_option("--seed", &options->sampling.seed, "seed of the random choices");
  command.add_option("--together", &options->sampling.together, "largest number of prompts in one forward pass")
      .legal(whole_number(1));
  command.add_flag("--json", options->json, "print one JSON object: prompts, tokens, texts, and why each text ended");
  command.run([program, options] {
    return on_all_ranks([&](comm::World& world) { return run_generate(*options, program.extensions, world); });
  });
}

}  // namespace hexad::app
