#include "framework/data/named_form.h"

#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/json_value.h"

namespace hexad::data {
namespace {

using jinja::Value;

constexpr std::string_view assistant = "assistant", system = "system";

void append(Document& out, std::string_view text, bool mark, bool answer) {
  if (text.empty()) return;
  out.text += text;
  out.parts.push_back({.end = out.text.size(), .mark = mark, .answer = answer});
}

// Returns the JSON of a tool or call. Throws Error(data) if it is too long.
std::string json_line(const Value& value) try {
  static const std::string place = "JSON";
  int64_t steps = jinja::max_steps;
  return jinja::json_text(value, {}, {place, 1, steps}).bytes();
} catch (const base::Error&) {  // replaces the error, whose message names a template
  base::fail(base::ExitCode::data, "the JSON of a tool or call is too long, expected at most ", jinja::largest_text,
             " bytes and fewer than ", jinja::max_steps, " values and keys");
}

// Sets `arguments` to the arguments of a call of `tool`. `given` is an object, or a text that contains a JSON object.
// Returns the problem; empty if there is none.
std::string read_arguments(const std::string& tool, const Value& given, Value& arguments) {
  arguments = given;
  const jinja::Text* text = given.text();
  if (text == nullptr) return {};
  const std::string what = base::cat("the arguments of the call of \"", config::shown(tool), "\" ");
  ChatJson json;
  if (!parse_chat_json(text->bytes(), json).empty() || !json.is_object())
    return base::cat(what, "are ", config::shown(text->bytes()), ", expected a JSON object");
  const std::string problem = read_value(json, arguments);
  return problem.empty() ? problem : base::cat(what, problem);
}

// Writes the lines of all tools at the end of a system turn.
void append_tools(const ToolMarks& marks, std::span<const Value> tools, bool follows_text, Document& out) {
  if (follows_text) append(out, "\n\n", true, false);
  append(out, marks.before_tools, true, false);
  for (size_t i = 0; i < tools.size(); ++i) {
    if (i > 0) append(out, "\n", true, false);
    append(out, json_line(tools[i]), false, false);
  }
  append(out, marks.after_tools, true, false);
}

// Writes a call at the end of a turn. The call is learned if `answer` is true. Returns the problem; empty if there is
// none.
std::string append_call(const ToolMarks& marks, const Value& call, bool follows_text, bool answer, Document& out) {
  const Value* function = call.object()->find("function");
  const Value& name = *function->object()->find("name");
  Value arguments;
  std::string problem = read_arguments(name.text()->bytes(), *function->object()->find("arguments"), arguments);
  if (!problem.empty()) return problem;
  jinja::Object line{jinja::ObjectKind::data};
  line.set("name", name);
  line.set(marks.arguments, std::move(arguments));
  if (follows_text) append(out, "\n", true, answer);
  append(out, marks.before_call, true, answer);
  append(out, json_line(jinja::object_value(std::move(line))), false, answer);
  append(out, marks.after_call, true, answer);
  return {};
}

}  // namespace

std::string NamedForm::write(const Conversation& conversation, Document& out) const try {
  out = {};
  append(out, form_.begin, true, false);
  const std::vector<ChatTurn>& turns = conversation.turns;
  std::span<const Value> tools = conversation.tools;
  if (!tools.empty() && !form_.tools)
    return base::cat("lists tools (\"tools\"), which --chat-form ", form_.name,
                     " cannot express; forms with tools: ", forms_with_tools());
  if (!tools.empty() && (turns.empty() || turns.front().role != system)) {
    if (std::string problem = write_turn({.role = std::string(system), .text = ""}, tools, out); !problem.empty())
      return problem;
    tools = {};
  }
  for (const ChatTurn& turn : turns) {
    if (std::string problem = write_turn(turn, tools, out); !problem.empty()) return problem;
    tools = {};  // the first turn has listed the tools
  }
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string NamedForm::write_turn(const ChatTurn& turn, std::span<const Value> tools, Document& out) const {
  const ChatRole* role = form_.find(turn.role);
  if (role == nullptr)
    return base::cat(place_of(turn), " has role \"", config::shown(turn.role), "\", expected ", form_.role_names(),
                     " (--chat-form ", form_.name, ")");
  if (!turn.calls.empty() && !form_.tools)
    return base::cat(place_of(turn), " calls tools (\"tool_calls\"), which --chat-form ", form_.name,
                     " cannot express; forms with tools: ", forms_with_tools());
  if (!turn.other_texts.empty())
    return base::cat(place_of(turn), " has the key \"", config::shown(turn.other_texts.front().first),
                     "\", which --chat-form ", form_.name, " does not write; remove it, or choose --chat-form ",
                     model_form_name, " with a template that reads it");
  const bool answer = turn.role == assistant;
  const size_t first = out.parts.size();
  append(out, role->before, true, false);
  append(out, turn.text, false, answer);
  bool follows_text = !turn.text.empty();
  if (!tools.empty()) append_tools(*form_.tools, tools, follows_text, out);
  for (const Value& call : turn.calls) {
    const std::string problem = append_call(*form_.tools, call, follows_text, answer, out);
    if (!problem.empty()) return base::cat(place_of(turn), ": ", problem);
    follows_text = true;
  }
  append(out, role->end, true, answer);
  append(out, role->after, true, false);
  for (DocumentPart& part : std::span(out.parts).subspan(first)) part.learned = turn.is_learned;
  return {};
}

std::string NamedForm::write_question(const Conversation& conversation, Document& out) const {
  std::string problem = write(conversation, out);
  append(out, form_.find(assistant)->before, true, false);
  return problem;
}

std::string NamedForm::end_of_answer() const { return std::string(form_.find(assistant)->end); }

std::string NamedForm::missing_role_text(std::string_view role) const {
  if (form_.find(role) != nullptr) return {};
  return base::cat("--chat-form ", form_.name, " has ", form_.role_names());
}

}  // namespace hexad::data
