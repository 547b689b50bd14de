#include "tools/hexad/commands/prompts.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/data/encoding.h"
#include "framework/data/file.h"
#include "framework/data/jsonl.h"
#include "framework/data/text_check.h"
#include "tools/train/model/generation.h"

namespace hexad::app {

using namespace base;
namespace {

std::string string_under(const nlohmann::json& object, const char* key, const std::string& place) {
  const nlohmann::json& value = object.at(key);
  if (!value.is_string())
    fail(ExitCode::data, place, ": \"", key, "\" is ", base::json_kind(value), ", expected a string");
  return value.get<std::string>();
}

Prompt prompt_of_json(std::string_view line, const std::string& system, bool chat, const std::string& place) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("prompt")) {
    const std::string found = object.is_discarded() ? std::string("is not JSON")
                              : object.is_object()  ? std::string("has no key \"prompt\"")
                                                    : cat("is ", base::json_kind(object));
    fail(ExitCode::data, place, ": ", found, ", expected an object with a string under \"prompt\"");
  }
  Prompt prompt{.text = string_under(object, "prompt", place), .system = system, .place = place};
  if (!object.contains("system")) return prompt;
  if (!chat) fail(ExitCode::data, place, ": \"system\" needs --chat-form; add --chat-form FORM, or remove \"system\"");
  prompt.system = string_under(object, "system", place);
  prompt.own_system = true;
  return prompt;
}

// Throws an Error if the form has no system role: Error(data) if the system text is from the file, otherwise
// Error(usage).
void require_system(const data::ConversationForm& form, const Prompt& prompt) {
  const std::string lacking = form.missing_role_text("system");
  if (lacking.empty()) return;
  if (!prompt.own_system)
    fail(ExitCode::usage, "--system needs a form with the role system; ", lacking,
         "; choose another form, or remove --system");
  fail(ExitCode::data, prompt.place, ": a system text needs a form with the role system; ", lacking,
       "; choose another form, or remove \"system\" from the line");
}

void require_fits(const Prompt& prompt, int64_t tokens, int64_t context) {
  const int64_t longest = train::longest_prompt(context);
  if (tokens <= longest) return;
  const ExitCode code = prompt.place.empty() ? ExitCode::usage : ExitCode::data;
  fail(code, prompt.place.empty() ? "" : prompt.place + ": ", "the prompt has ", tokens, " tokens; expected at most ",
       longest, ", because the model's context (model.context) is ", context);
}

}  // namespace

std::vector<Prompt> read_prompts(const std::string& path, const std::string& system, bool chat) {
  const std::string file = data::read_file(path);
  const std::string_view contents = data::without_byte_order_mark(file);
  // Also reads the lines of a .json file as objects, because the JSON itself would otherwise become the text of a
  // prompt.
  const bool json = data::form_of(path, contents, {}) == data::TextForm::json_lines || data::form_needs_contents(path);
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (size_t begin = 0; begin < contents.size();) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    std::string_view line = contents.substr(begin, end - begin);
    begin = end + 1, ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::string place = cat(path, ":", number);
    prompts.push_back(json ? prompt_of_json(line, system, chat, place)
                           : Prompt{.text = std::string(line), .system = system, .place = place});
  }
  if (prompts.empty()) fail(ExitCode::data, "'", path, "' has no prompt; expected a prompt on each line");
  return prompts;
}

std::vector<int32_t> chat_prompt(const data::Tokenizer& tokenizer, const data::ConversationForm& form,
                                 const Prompt& prompt, data::Packing packing) {
  data::Conversation question;
  if (!prompt.system.empty()) {
    require_system(form, prompt);
    question.turns.push_back({"system", prompt.system, 0});
  }
  question.turns.push_back({"user", prompt.text, 1});
  data::Document chat;
  if (const std::string problem = form.write_question(question, chat); !problem.empty()) {
    if (prompt.place.empty()) fail(ExitCode::usage, "the prompt cannot be written as a chat: ", problem);
    fail(ExitCode::data, prompt.place, ": ", problem);
  }
  std::vector<int32_t> ids = data::encode_document(tokenizer, chat, false).ids;
  ids.pop_back();  // removes the end of the document, because the answer follows
  return train::begin_prompt(tokenizer, std::move(ids), packing);
}

std::vector<int32_t> end_of_answer(const data::Tokenizer& tokenizer, const data::ConversationForm& form) {
  return data::ids_after_answer(tokenizer, form.end_of_answer());
}

std::vector<std::vector<int32_t>> ids_of_prompts(const data::Tokenizer& tokenizer, const data::ConversationForm* form,
                                                 const std::vector<Prompt>& prompts, const PromptRules& rules) {
  std::vector<std::vector<int32_t>> all;
  for (const Prompt& prompt : prompts) {
    all.push_back(form ? chat_prompt(tokenizer, *form, prompt, rules.packing)
                       : train::prompt_of(tokenizer, prompt.text, rules.packing));
    if (form || !prompt.place.empty()) require_fits(prompt, std::ssize(all.back()), rules.context);
  }
  return all;
}

}  // namespace hexad::app
