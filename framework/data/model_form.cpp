#include "framework/data/model_form.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/json_value.h"

namespace hexad::data {

using base::cat;
namespace {

using jinja::Origin;
using jinja::Text;
using jinja::Value;

// Bytes [begin, end) of an answer and of the marks that belong to it. `mark` is the position of the mark that ends the
// answer, or `end` if this position is not known.
struct Answer {
  size_t begin, mark, end;
};

constexpr std::array<std::string_view, 4> roles{"system", "user", "assistant", "tool"};

bool is_role(std::string_view role) { return std::ranges::find(roles, role) != roles.end(); }

// Returns a turn as an element of the variable `messages`. A role is one of four fixed words, so it may be part of a
// mark.
Value message(const ChatTurn& turn) {
  jinja::Object object{jinja::ObjectKind::message};
  object.set("role", jinja::text_value(turn.role, Origin::model));
  object.set("content", turn.has_text ? jinja::text_value(turn.text, Origin::message) : jinja::none());
  if (!turn.calls.empty()) object.set("tool_calls", jinja::data_list(turn.calls));
  if (!turn.tool.empty()) object.set("name", jinja::text_value(turn.tool, Origin::message));
  if (!turn.tool_call.empty()) object.set("tool_call_id", jinja::text_value(turn.tool_call, Origin::message));
  for (const auto& [key, text] : turn.other_texts) object.set(key, jinja::text_value(text, Origin::message));
  return jinja::object_value(std::move(object));
}

std::vector<Value> messages_of(std::span<const ChatTurn> turns) {
  std::vector<Value> messages;
  for (const ChatTurn& turn : turns) messages.push_back(message(turn));
  return messages;
}

// Returns the template's variable `tools`: a list of the tools, or none if there are no tools.
Value tools_of(const Conversation& conversation) {
  return conversation.tools.empty() ? jinja::none() : jinja::data_list(conversation.tools);
}

// Returns an example of the template's variable `tools`: a list of one tool.
Value example_tools() {
  Value tools;
  read_value(ChatJson::parse(R"([{"type": "function", "function": {"name": "f", "description": "", "parameters": )"
                             R"({"type": "object", "properties": {}}}}])"),
             tools);
  return tools;
}

// True if the bytes from `begin` on are marks and equal `end`.
bool ends_with_mark(const Text& text, size_t begin, std::string_view end) {
  for (size_t i = begin; i < text.size(); ++i)
    if (text.origin(i) != Origin::model) return false;
  return std::string_view(text.bytes()).substr(begin) == end;
}

// Divides a rendered text into parts, each of which is either text of messages or marks. The mark that ends an answer
// is a separate part. Only the tokens of this mark up to the first special token are learned (see targets_of_end()).
Document document_of(const Text& text, std::span<const Answer> answers) {
  Document out{.text = text.bytes(), .from_chat_template = true};
  size_t next = 0;  // index of the first answer that ends after the current byte
  for (size_t i = 0; i < text.size(); ++i) {
    while (next < answers.size() && i >= answers[next].end) ++next;
    const DocumentPart part{.end = i + 1,
                            .mark = text.origin(i) == Origin::model,
                            .answer = next < answers.size() && i >= answers[next].begin};
    const bool ends_answer = next < answers.size() && i == answers[next].mark;
    const bool continues = !ends_answer && !out.parts.empty() && out.parts.back().mark == part.mark &&
                           out.parts.back().answer == part.answer;
    if (continues) {
      out.parts.back().end = part.end;
    } else {
      out.parts.push_back(part);
    }
  }
  return out;
}

// True if an answer has text of messages. Otherwise, the template writes no answers, and nothing could be learned.
bool has_answer(const Document& document) {
  return std::ranges::any_of(document.parts, [](const DocumentPart& part) { return part.answer && !part.mark; });
}

std::string unstable(const ChatTurn& turn, const std::string& path, std::string_view what) {
  return cat(place_of(turn), ": ", path, ": ", what,
             ", so the tokens of the answer cannot be found; choose a named --chat-form");
}

}  // namespace

ModelForm::ModelForm(const ChatTemplate& source)
    : template_(source.source, source.path),
      words_(words_of(source.source)),
      tool_words_(words_of(source.tool_source)) {
  for (const auto& [name, text] : source.tokens) tokens_.emplace_back(name, jinja::text_value(text, Origin::model));
  if (!source.tool_source.empty()) try {
      tool_template_.emplace(source.tool_source, source.tool_path);
    } catch (const base::Error& error) {
      tool_problem_ = error.what();
    }
  const auto known_end = [&](const jinja::Template& form, const Value& tools) -> std::string {
    try {
      return end_of(form, tools);
    } catch (const base::Error&) {  // the template refuses this conversation, so the mark is not known
      return {};
    }
  };
  end_ = known_end(template_, jinja::none());
  if (tool_template_) tool_end_ = known_end(*tool_template_, example_tools());
}

ModelForm::Words ModelForm::words_of(std::string_view source) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  Words words;
  for (size_t begin = source.find_first_of(letters); begin != source.npos;) {
    const size_t end = std::min(source.find_first_not_of(letters, begin), source.size());
    words.emplace(source.substr(begin, end - begin));
    begin = source.find_first_of(letters, end);
  }
  return words;
}

std::string ModelForm::unread_text(const jinja::Template& form, std::span<const ChatTurn> turns) const {
  const Words& words = &form == &template_ ? words_ : tool_words_;
  for (const ChatTurn& turn : turns)
    for (const auto& [key, text] : turn.other_texts)
      if (!words.contains(key))
        return cat(place_of(turn), " has the key \"", config::shown(key), "\", which ", form.path(),
                   " does not read; remove it from the conversations");
  return {};
}

const jinja::Template& ModelForm::template_of(const Conversation& conversation) const {
  if (conversation.tools.empty()) return template_;
  if (!tool_problem_.empty()) base::fail(base::ExitCode::data, tool_problem_);
  return tool_template_ ? *tool_template_ : template_;
}

Text ModelForm::render(const jinja::Template& form, std::span<const Value> messages, const Value& tools,
                       bool begins_answer) const {
  jinja::Variables variables = tokens_;
  variables.emplace_back("messages", jinja::data_list(std::vector<Value>(messages.begin(), messages.end())));
  variables.emplace_back("add_generation_prompt", jinja::boolean(begins_answer));
  variables.emplace_back("tools", tools);
  variables.emplace_back("documents", jinja::none());
  return form.render(variables);
}

bool ModelForm::writes_without_calls(const jinja::Template& form, std::span<const ChatTurn> turns, const Value& tools,
                                     const Text& text) const try {
  std::vector<ChatTurn> others(turns.begin(), turns.end());
  others.back().calls.clear();
  return render(form, messages_of(others), tools, false).bytes() == text.bytes();
} catch (const base::Error&) {  // the template refuses an answer that has neither text nor calls
  return false;
}

std::string ModelForm::write(const Conversation& conversation, Document& out) const try {
  const std::span<const ChatTurn> turns = conversation.turns;
  if (turns.size() > max_turns)
    return cat("has ", turns.size(), " turns, expected at most ", max_turns, " (--chat-form model)");
  for (const ChatTurn& turn : turns)
    if (!is_role(turn.role))
      return cat(place_of(turn), " has role \"", config::shown(turn.role), "\", expected ", config::join(roles),
                 " (--chat-form model)");
  const jinja::Template& form = template_of(conversation);
  if (std::string problem = unread_text(form, turns); !problem.empty()) return problem;
  const std::vector<Value> messages = messages_of(turns);
  const std::span<const Value> all = messages;
  const Value tools = tools_of(conversation);
  const std::string& end = &form == &template_ ? end_ : tool_end_;
  const Text whole = render(form, all, tools, false);
  std::vector<Answer> answers;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role != "assistant" || !turns[i].is_learned) continue;
    const Text before = render(form, all.first(i), tools, true);
    const Text after = i + 1 == turns.size() ? whole : render(form, all.first(i + 1), tools, false);
    if (!after.starts_with(before))
      return unstable(turns[i], form.path(),
                      "the text with the answer does not begin with the prompt for the answer (the text with "
                      "add_generation_prompt)");
    if (!whole.starts_with(after))
      return unstable(turns[i], form.path(), "later turns change the text of this turn or of earlier turns");
    if (!turns[i].calls.empty() && writes_without_calls(form, turns.first(i + 1), tools, after))
      return cat(place_of(turns[i]), " calls tools (\"tool_calls\"), but ", form.path(),
                 " writes the same text without the calls, so the model would not learn them",
                 turns[i].has_text ? "; choose a named --chat-form, or write calls in a turn without \"content\""
                                   : "; choose a named --chat-form");
    const size_t mark = after.size() - std::min(end.size(), after.size() - before.size());
    answers.push_back({before.size(), ends_with_mark(after, mark, end) ? mark : after.size(), after.size()});
  }
  out = document_of(whole, answers);
  const bool answered = std::ranges::any_of(
      turns, [](const ChatTurn& turn) { return turn.role == "assistant" && turn.is_learned && !turn.text.empty(); });
  if (answered && !has_answer(out))
    return cat("has no answer to train on: ", template_.path(),
               " writes no text of its assistant turns; choose a named --chat-form");
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string ModelForm::write_question(const Conversation& conversation, Document& out) const try {
  const jinja::Template& form = template_of(conversation);
  out = document_of(render(form, messages_of(conversation.turns), tools_of(conversation), true), {});
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string ModelForm::end_of_answer() const { return end_of(template_, jinja::none()); }

std::string ModelForm::end_of(const jinja::Template& form, const Value& tools) const {
  const std::array<ChatTurn, 2> turns{ChatTurn{"user", "a", 1}, ChatTurn{"assistant", "b", 2}};
  const Text text = render(form, messages_of(turns), tools, false);
  size_t end = text.size();
  while (end > 0 && text.origin(end - 1) == Origin::model) --end;
  return end == 0 ? "" : text.bytes().substr(end);
}

std::string ModelForm::missing_role_text(std::string_view role) const {
  if (is_role(role)) return {};
  return cat("--chat-form model has ", config::join(roles));
}

}  // namespace hexad::data
