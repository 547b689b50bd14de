#include "framework/data/named_form.h"

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::data {
namespace {

constexpr std::string_view assistant = "assistant";

void append(Document& out, std::string_view text, bool mark, bool answer) {
  if (text.empty()) return;
  out.text += text;
  out.parts.push_back({.end = out.text.size(), .mark = mark, .answer = answer});
}

}  // namespace

std::string NamedForm::write(std::span<const ChatTurn> turns, Document& out) const {
  out = {};
  append(out, form_.begin, true, false);
  for (const ChatTurn& turn : turns) {
    const ChatRole* role = form_.find(turn.role);
    if (role == nullptr)
      return base::cat(place_of(turn), " has role \"", config::shown(turn.role), "\", expected ", form_.role_names(),
                       " (--chat-form ", form_.name, ")");
    const bool answer = turn.role == assistant;
    append(out, role->before, true, false);
    append(out, turn.text, false, answer);
    append(out, role->end, true, answer);
    append(out, role->after, true, false);
  }
  return {};
}

std::string NamedForm::write_question(std::span<const ChatTurn> turns, Document& out) const {
  std::string problem = write(turns, out);
  append(out, form_.find(assistant)->before, true, false);
  return problem;
}

std::string NamedForm::end_of_answer() const { return std::string(form_.find(assistant)->end); }

std::string NamedForm::lacking(std::string_view role) const {
  if (form_.find(role) != nullptr) return {};
  return base::cat("--chat-form ", form_.name, " has ", form_.role_names());
}

}  // namespace hexad::data
