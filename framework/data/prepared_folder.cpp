#include "framework/data/prepared_folder.h"

#include <sys/stat.h>

#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/data/chat_template.h"
#include "framework/data/conversation.h"
#include "framework/data/file.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

constexpr const char* template_setting = "the chat template";
constexpr const char* rules_setting = "the rules of conversations";

std::string in(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

// True if `path` exists. A link exists even if its target does not.
bool is_there(const std::string& path) {
  std::error_code error;  // ignored, because a later write to the path also fails and reports the reason
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);  // replaces invalid UTF-8 in names of files
}

Json to_json(const PreparedPart& part) {
  return {{"documents", part.documents},
          {"tokens", part.tokens},
          {"text_bytes", part.text_bytes},
          {"fingerprint", part.fingerprint}};
}

// Returns the paths of the files with text, grouped by form.
Json taken(const InputFiles& files) {
  Json json = Json::object();
  for (const InputFile& file : files.taken)
    if (file.has_text) json[std::string(name_of(file.form))].push_back(file.path);
  return json;
}

Json without_text(const InputFiles& files) {
  Json json = Json::array();
  for (const InputFile& file : files.taken)
    if (!file.has_text) json.push_back(file.path);
  return json;
}

// Returns the paths of the skipped files, grouped by reason.
Json not_taken(const InputFiles& files) {
  Json json = Json::object();
  for (const SkippedFile& file : files.skipped)
    json[file.why == SkipReason::binary ? file.what : std::string(base::enum_name(file.why))].push_back(file.path);
  return json;
}

// Version of the rules that convert conversations to tokens and targets. It increases when these rules change.
constexpr int conversation_rules = 2;

// Returns the settings by their names on the command line. Most settings that have no effect are omitted. With a chat
// form, conversation_rules is added; with --chat-form model, the digest of the model's chat template is added, too.
Json settings(const PrepareOptions& o) {
  Json used = {{"--tokenizer", o.tokenizer},
               {"--heldout", o.heldout},
               {"--split", base::enum_name(o.split.rule)},
               {"--split-bytes", o.split.longest_bytes},
               {"--text-key", o.text_key}};
  if (!o.chat_form.empty()) used["--chat-form"] = o.chat_form, used[rules_setting] = conversation_rules;
  if (o.chat_form == model_form_name) used[template_setting] = read_chat_template(o.tokenizer).digest().to_string();
  if (o.tokenizer == "bpe") used["--vocab"] = o.vocab_size;
  if (!o.choice.end_of_document.empty()) used["--end-of-document"] = o.choice.end_of_document;
  if (!o.choice.pattern.empty()) used["--tokenizer-pattern"] = o.choice.pattern;
  if (o.split.rule == DocumentRule::separator) used["--separator"] = o.split.separator;
  return used;
}

PreparedPart part_of(const std::string& path) {
  const TokenDataset dataset(path);
  return {dataset.documents(), dataset.tokens(), dataset.text_bytes(), dataset.fingerprint().to_string()};
}

// Returns the summary in `folder`; null if it does not exist or cannot be read.
Json summary_in(const std::string& folder) {
  try {
    return Json::parse(read_file(in(folder, summary_file_name), largest_summary));
  } catch (const Error&) {
    return nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

// Returns the time at which a file was last written, for example "2026-11-23 06:52 UTC", or "at an unknown time".
std::string written_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "at an unknown time";
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(status.st_mtime));
}

std::string differences(const Json& before, const PrepareOptions& options) {
  if (!before.contains("settings") || !before["settings"].is_object())
    return "the text or its preparation (the earlier dataset does not record which)";
  std::vector<std::string> found;
  const Json now = settings(options);
  for (const auto& [key, value] : now.items()) {
    // The record of the earlier preparation lacks settings that had no effect. It also lacks settings that an older
    // version of this program did not record.
    if (!before["settings"].contains(key)) {
      if (key == "--chat-form") found.push_back(cat(key, " ", dumped(value), " is new"));
      if (key == rules_setting && before["settings"].contains("--chat-form"))
        found.push_back("this version of hexad converts conversations by different rules");
      continue;
    }
    const Json old = before["settings"][key];
    if (old != value) found.push_back(cat(key, " ", dumped(old), " -> ", dumped(value)));
  }
  for (const char* key : {"--chat-form", "--end-of-document", "--tokenizer-pattern"})
    if (before["settings"].contains(key) && !now.contains(key))
      found.push_back(cat(key, " ", dumped(before["settings"][key]), " is missing"));
  return found.empty() ? "the text" : fmt::format("{}", fmt::join(found, ", "));
}

// Returns the part of a message that describes the dataset in `folder`.
std::string description(const std::string& folder, const Json& summary) try {
  const auto tokens = [&](const char* part) { return summary.at(part).at("tokens").get<int64_t>(); };
  std::string sources;
  for (const Json& input : summary.value("inputs", Json::array()))
    sources += (sources.empty() ? " from " : ", ") + input.get<std::string>();
  return fmt::format("a different dataset, made {}{} ({}): {} training and {} held-out tokens, vocabulary {}",
                     written_at(in(folder, summary_file_name)), sources,
                     counted(summary.at("files").get<int64_t>(), "file"), tokens("train"), tokens("heldout"),
                     summary.at("vocab_size").get<int64_t>());
} catch (const Json::exception&) {
  std::vector<std::string> files;
  for (std::string_view name : prepared_file_names) {
    if (is_there(in(folder, name))) files.push_back(cat(name, " (", written_at(in(folder, name)), ")"));
  }
  return fmt::format("a dataset that does not record its input: {}", fmt::join(files, ", "));
}

}  // namespace

Digest request_digest(const PrepareOptions& o, Digest inputs) {
  const bool named = o.tokenizer == "bpe" || o.tokenizer == "bytes";
  Json request = {{"inputs", inputs.to_string()},
                  {"tokenizer", named ? o.tokenizer : load_tokenizer(o.tokenizer, o.choice)->fingerprint().to_string()},
                  {"vocab_size", o.tokenizer == "bpe" ? o.vocab_size : 0},
                  {"rule", static_cast<int>(o.split.rule)},
                  {"separator", o.split.rule == DocumentRule::separator ? o.split.separator : ""},
                  {"longest_bytes", o.split.longest_bytes},
                  {"heldout", o.heldout}};
  if (!o.chat_form.empty()) request["chat_form"] = o.chat_form, request["conversation_rules"] = conversation_rules;
  if (o.chat_form == model_form_name) request["chat_template"] = read_chat_template(o.tokenizer).digest().to_string();
  return digest_of(dumped(request));
}

std::string settings_json(const PrepareOptions& options) { return dumped(settings(options)); }

std::string differences_to(const std::string& record, const PrepareOptions& options) {
  return differences(Json::parse(record, nullptr, /*allow_exceptions=*/false), options);
}

std::string summary_json(const PrepareOptions& options, Digest request, const PrepareSummary& summary) {
  const Json json = {{"request", request.to_string()},
                     {"inputs", options.inputs},
                     {"settings", settings(options)},
                     {"files", summary.files},
                     {"taken", taken(summary.inputs)},
                     {"not_taken", not_taken(summary.inputs)},
                     {"without_text", without_text(summary.inputs)},
                     {"empty_documents", summary.empty_documents},
                     {"vocab_size", summary.vocab_size},
                     {"tokenizer", summary.tokenizer},
                     {"train", to_json(summary.train)},
                     {"heldout", to_json(summary.heldout)}};
  return dumped(json, 2) + "\n";
}

std::optional<PrepareSummary> earlier_run(const PrepareOptions& options, Digest request) {
  try {
    const Json json = summary_in(options.output);
    if (json.is_null() || json.at("request") != request.to_string()) return std::nullopt;
    PrepareSummary summary;
    summary.files = json.at("files");
    summary.empty_documents = json.at("empty_documents");
    summary.vocab_size = json.at("vocab_size");
    summary.tokenizer = load_tokenizer(in(options.output, tokenizer_file_name))->fingerprint().to_string();
    summary.train = part_of(in(options.output, train_file_name));
    if (options.heldout > 0) summary.heldout = part_of(in(options.output, heldout_file_name));
    summary.skipped = true;
    const bool sound = json.at("tokenizer") == summary.tokenizer && json.at("train") == to_json(summary.train) &&
                       json.at("heldout") == to_json(summary.heldout);
    return sound ? std::optional(summary) : std::nullopt;
  } catch (const Error&) {  // a file is missing or damaged, so the dataset must be made again
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void refuse_to_replace(const PrepareOptions& options, Digest request) {
  bool empty = true;
  for (std::string_view name : prepared_file_names) empty = empty && !is_there(in(options.output, name));
  if (empty) return;
  const Json summary = summary_in(options.output);
  if (summary.is_object() && summary.value("request", Json()) == request.to_string()) return;
  fail(ExitCode::usage, options.output, ": contains ", description(options.output, summary),
       ". Differences: ", differences(summary, options),
       ". Choose another --output; --force replaces the dataset, but runs that were trained on it can then be neither "
       "continued nor evaluated");
}

}  // namespace hexad::data
