#include "framework/data/model_form.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::data {

using base::cat;
namespace {

using jinja::Origin;
using jinja::Text;
using jinja::Value;

// Bytes [begin, end) of an answer and the marks that belong to it.
struct Answer {
  size_t begin, end;
};

constexpr std::array<std::string_view, 4> roles{"system", "user", "assistant", "tool"};

bool is_role(std::string_view role) { return std::ranges::find(roles, role) != roles.end(); }

// Returns a turn as an element of the variable `messages`. A role is one of four fixed words, so it may stand in marks.
Value message(const ChatTurn& turn) {
  jinja::Object object{jinja::ObjectKind::message};
  object.set("role", jinja::text_value(turn.role, Origin::model));
  object.set("content", jinja::text_value(turn.text, Origin::message));
  return jinja::object_value(std::move(object));
}

std::vector<Value> messages_of(std::span<const ChatTurn> turns) {
  std::vector<Value> messages;
  for (const ChatTurn& turn : turns) messages.push_back(message(turn));
  return messages;
}

// Divides a rendered text into parts, each of which is either text of messages or marks.
Document document_of(const Text& text, std::span<const Answer> answers) {
  Document out{.text = text.bytes()};
  size_t next = 0;  // index of the first answer that ends after the current byte
  for (size_t i = 0; i < text.size(); ++i) {
    while (next < answers.size() && i >= answers[next].end) ++next;
    const DocumentPart part{.end = i + 1,
                            .mark = text.origin(i) == Origin::model,
                            .answer = next < answers.size() && i >= answers[next].begin};
    const bool continues =
        !out.parts.empty() && out.parts.back().mark == part.mark && out.parts.back().answer == part.answer;
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

ModelForm::ModelForm(const ChatTemplate& source) : template_(source.source, source.path) {
  for (const auto& [name, text] : source.tokens) tokens_.emplace_back(name, jinja::text_value(text, Origin::model));
}

Text ModelForm::render(std::span<const Value> messages, bool begins_answer) const {
  auto all = std::make_shared<jinja::List>();
  all->items.assign(messages.begin(), messages.end());
  jinja::Variables variables = tokens_;
  variables.emplace_back("messages", Value{Value::Data(jinja::ListPointer(std::move(all)))});
  variables.emplace_back("add_generation_prompt", jinja::boolean(begins_answer));
  variables.emplace_back("tools", jinja::none());
  variables.emplace_back("documents", jinja::none());
  return template_.render(variables);
}

std::string ModelForm::write(std::span<const ChatTurn> turns, Document& out) const try {
  if (turns.size() > most_turns)
    return cat("has ", turns.size(), " turns, expected at most ", most_turns, " (--chat-form model)");
  for (const ChatTurn& turn : turns)
    if (!is_role(turn.role))
      return cat(place_of(turn), " has role \"", config::shown(turn.role), "\", expected ", config::join(roles),
                 " (--chat-form model)");
  const std::vector<Value> messages = messages_of(turns);
  const std::span<const Value> all = messages;
  const Text whole = render(all, false);
  std::vector<Answer> answers;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role != "assistant") continue;
    const Text before = render(all.first(i), true);
    const Text after = i + 1 == turns.size() ? whole : render(all.first(i + 1), false);
    if (!after.starts_with(before))
      return unstable(turns[i], template_.path(),
                      "the text with the answer does not begin with the text before it, up to where a model would "
                      "answer (add_generation_prompt)");
    if (!whole.starts_with(after))
      return unstable(turns[i], template_.path(), "later turns change the text of this turn or of earlier turns");
    answers.push_back({before.size(), after.size()});
  }
  out = document_of(whole, answers);
  const bool answered =
      std::ranges::any_of(turns, [](const ChatTurn& turn) { return turn.role == "assistant" && !turn.text.empty(); });
  if (answered && !has_answer(out))
    return cat("has no answer to train on: ", template_.path(),
               " writes no text of its assistant turns; choose a named --chat-form");
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string ModelForm::write_question(std::span<const ChatTurn> turns, Document& out) const try {
  out = document_of(render(messages_of(turns), true), {});
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string ModelForm::end_of_answer() const {
  const std::array<ChatTurn, 2> turns{ChatTurn{"user", "a", 1}, ChatTurn{"assistant", "b", 2}};
  const Text text = render(messages_of(turns), false);
  size_t end = text.size();
  while (end > 0 && text.origin(end - 1) == Origin::model) --end;
  return end == 0 ? "" : text.bytes().substr(end);
}

std::string ModelForm::lacking(std::string_view role) const {
  if (is_role(role)) return {};
  return cat("--chat-form model has ", config::join(roles));
}

}  // namespace hexad::data
