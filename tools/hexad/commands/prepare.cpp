#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <span>

#include <fmt/core.h>

#include "framework/base/clock.h"
#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/base/escaped.h"
#include "framework/base/units.h"
#include "framework/config/words.h"
#include "framework/data/byte_stream.h"
#include "framework/data/chat_form.h"
#include "framework/data/conversation.h"
#include "framework/data/input_files.h"
#include "framework/data/prepare.h"
#include "framework/telemetry/text_output.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/prepare_progress.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/train/process/machine.h"

namespace hexad::app {
namespace {

// Input files with the same extension and text form. `bytes` is their total size.
struct Kind {
  std::string name;
  double bytes = 0;
  std::vector<std::string> files = {};
};

// Returns the extension of a file in lower case, or "without extension". An extension consists of at most ten letters
// and digits. Therefore the ends of "notes.2024-05-01" and "Chapter 1. The end" are not extensions.
std::string extension_of(const std::string& path) {
  std::string text = std::filesystem::path(data::without_compression(path)).extension().string();
  const bool alphanumeric = std::ranges::all_of(text.substr(std::min<size_t>(text.size(), 1)),
                                                [](unsigned char c) { return std::isalnum(c) != 0; });
  if (text.size() < 2 || text.size() > 11 || !alphanumeric) return "without extension";
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<Kind> kinds_of(const data::InputFiles& files) {
  std::map<std::string, Kind> kinds;
  for (const data::InputFile& file : files.taken) {
    if (!file.has_text) continue;
    const std::string path = base::escaped(file.path);
    const std::string form = file.form == data::TextForm::text ? "" : fmt::format(" ({})", name_of(file.form));
    const std::string name = extension_of(file.path) + form;
    Kind& kind = kinds.try_emplace(name, Kind{name}).first->second;
    kind.bytes += static_cast<double>(file.bytes);
    kind.files.push_back(path);
  }
  std::vector<Kind> all;
  for (auto& [name, kind] : kinds) all.push_back(std::move(kind));
  std::ranges::stable_sort(all, std::greater{}, &Kind::bytes);
  return all;
}

void print_inputs(const data::InputFiles& files, const std::string& list) {
  constexpr size_t most = 20;
  const std::vector<Kind> kinds = kinds_of(files);
  std::vector<std::string> lines;
  for (const Kind& kind : std::span(kinds).first(std::min(kinds.size(), most)))
    lines.push_back(fmt::format("{} {}, {}: {}", kind.files.size(), kind.name, base::human_bytes(kind.bytes),
                                data::some_of(kind.files)));
  if (kinds.size() > most)
    lines.push_back(fmt::format("and {}", base::counted(std::ssize(kinds) - std::ssize(lines), "smaller kind")));
  const auto print = [](std::string_view title, const std::vector<std::string>& of) {
    for (size_t i = 0; i < of.size(); ++i) fmt::print("  {:<9} {}\n", i == 0 ? title : "", of[i]);
  };
  print("taken", lines);
  print("not taken", data::lines_of_skipped(files));
  if (!list.empty()) fmt::print("  all files are listed in {}\n", list);
}

void run_prepare(const data::PrepareOptions& options) {
  using namespace telemetry;
  TextOutput err(2);
  PrepareProgressLine line(err);
  const auto show = [&](const data::PrepareProgress& progress) { line.show(progress, base::now()); };
  data::PrepareSummary summary;
  try {
    summary = data::prepare(options, show);
  } catch (...) {
    line.finish();  // the error message then begins on a new line
    throw;
  }
  line.finish();
  if (summary.resumed_documents > 0)
    err.write(fmt::format("continued an interrupted preparation: {} had been encoded\n",
                          base::counted(summary.resumed_documents, "document")));
  for (const std::string& warning : summary.warnings) err.write(fmt::format("warning: {}\n", warning));
  fmt::print("{}{}: {}, vocabulary {}, {:.2f} bytes per token\n", options.output,
             summary.skipped ? " (already prepared)" : "", base::counted(summary.files, "file"), summary.vocab_size,
             summary.bytes_per_token());
  const auto part = [](std::string_view name, const data::PreparedPart& p) {
    fmt::print("  {:<9} {:>12} {:<6}  {:>10} {:<9}  {:>12} of text\n", name, base::grouped(p.tokens),
               base::plural(p.tokens, "token"), base::grouped(p.documents), base::plural(p.documents, "document"),
               base::human_bytes(static_cast<double>(p.text_bytes)));
  };
  part("training", summary.train);
  part("held-out", summary.heldout);
  const auto list = std::filesystem::path(options.output) / data::summary_file_name;
  print_inputs(summary.inputs, summary.skipped ? "" : list.string());
  if (options.tokenizer == "bpe" && summary.vocab_size < options.vocab_size)
    fmt::print("  the vocabulary has {} ids, fewer than --vocab {}: no further pair occurs twice in the text\n",
               summary.vocab_size, options.vocab_size);
}

}  // namespace

void add_prepare(const Program& program) {
  const Command command =
      program.root.add_command("prepare", "Turn text into a tokenizer and an indexed token dataset");
  auto o = std::make_shared<data::PrepareOptions>();
  auto rule = std::make_shared<std::string>("file");
  auto workers = std::make_shared<int>(0);
  std::vector<std::string_view> forms;
  for (const data::ChatForm& form : data::chat_forms()) forms.push_back(form.name);
  forms.push_back(data::model_form_name);
  command
      .add_option("--input", &o->inputs,
                  "text files and folders; each object in a file of JSON objects (.jsonl, .ndjson, .json) is a "
                  "document; .gz and .zst files are decompressed")
      .required()
      .path();
  command.add_option("--output", &o->output, "folder to write").required().path();
  command.add_option("--include", &o->include,
                     "take only files that match a pattern: a name such as '*.txt', or a path relative to the input "
                     "such as 'books/*'");
  command.add_option("--exclude", &o->exclude, "ignore files and folders that match a pattern, as for --include");
  command.add_flag("--follow-links", o->follow_links, "follow links in folders; each file is still taken only once");
  command
      .add_option(
          "--tokenizer", &o->tokenizer,
          "bpe (trained on the input), bytes, or a model's tokenizer: tokenizer.json, *.tiktoken, tekken.json, *.model "
          "(SentencePiece), or a folder with one of them")
      .path();
  command.add_option("--end-of-document", &o->choice.end_of_document,
                     "token that ends documents, for a model's tokenizer; default: the model's own");
  command.add_option("--tokenizer-pattern", &o->choice.pattern,
                     "name of the pattern of a .tiktoken file, such as cl100k; default: the pattern known for the "
                     "file's number of tokens");
  const Option vocab = command.add_option("--vocab", &o->vocab_size, "vocabulary size of a bpe tokenizer")
                           .legal(whole_number(258, 1000000));
  command.add_option("--heldout", &o->heldout, "share of documents that are held out").legal(number(0, 0.9));
  const Option split =
      command
          .add_option("--split", rule.get(),
                      "rule that splits text into documents: file (one document per file), blank_lines or separator")
          .legal(one_of({"file", "blank_lines", "separator"}));
  const Option separator =
      command.add_option("--separator", &o->split.separator, "line between documents, for --split separator");
  const Option split_bytes =
      command
          .add_option("--split-bytes", &o->split.longest_bytes,
                      "maximum size of a document in bytes; longer documents are cut into pieces; 0: no limit")
          .legal(zero_or_at_least(data::least_split_bytes));
  const Option text_key = command.add_option(
      "--text-key", &o->text_key, "key of the text in files of JSON objects; a.b is key b of the object under a");
  const Option chat = command
                          .add_option("--chat-form", &o->chat_form,
                                      base::cat("read JSON objects as conversations, write them in this form, and "
                                                "make only the answers targets of training: ",
                                                config::join(forms), " (the chat template of --tokenizer)"))
                          .legal(one_of(forms));
  command
      .add_option("--workers", workers.get(),
                  "number of threads that parse and encode text and train the tokenizer; 0: one for each core; the "
                  "dataset does not depend on this number")
      .legal(whole_number(0, 1024));
  command.add_flag("--binary", o->binary, "also take files that are not UTF-8 text, as bytes");
  command.add_flag("--force", o->force,
                   "replace another dataset in the output folder, finished or not; runs trained on the replaced "
                   "dataset can no longer be continued or evaluated");
  command.run(on_one_rank(command, [=] {
    if (vocab.given() && o->tokenizer != "bpe")
      base::fail(base::ExitCode::usage, "--vocab needs --tokenizer bpe, but --tokenizer ", o->tokenizer,
                 " has its own vocabulary; remove --vocab");
    if (separator.given() && *rule != "separator")
      base::fail(base::ExitCode::usage, "--separator has no meaning with --split ", *rule,
                 "; remove --separator, or use --split separator");
    if (text_key.given() && chat.given())
      base::fail(base::ExitCode::usage, "--text-key ", o->text_key, " names one text, but --chat-form ", o->chat_form,
                 " takes whole conversations: give only one of them");
    if (chat.given() && (split.given() || split_bytes.given()))
      base::fail(base::ExitCode::usage, split.given() ? "--split" : "--split-bytes",
                 " divides texts, but each conversation (--chat-form) is one document: give only one of them");
    o->text_key_given = text_key.given();
    o->workers = *workers > 0 ? *workers : static_cast<int>(train::usable_cores());
    o->split.rule = base::enum_named<data::DocumentRule>(*rule).value_or(o->split.rule);
    run_prepare(*o);
    return base::ExitCode::done;
  }));
}

}  // namespace hexad::app
