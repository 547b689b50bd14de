#include "framework/data/chat_record.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::data {
using base::cat;
namespace {

using Json = nlohmann::json;

// Turns of one object, or its problem.
struct Turns {
  std::vector<ChatTurn> turns = {};
  std::string problem = {};
  size_t systems = 0;  // number of turns taken from a key "system", 0 or 1; they come first
};

std::string role_of(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> others{{{"human", "user"},
                                                                                        {"gpt", "assistant"},
                                                                                        {"model", "assistant"},
                                                                                        {"bot", "assistant"},
                                                                                        {"chatgpt", "assistant"},
                                                                                        {"function", "tool"},
                                                                                        {"observation", "tool"},
                                                                                        {"ipython", "tool"}}};
  for (const auto& [other, role] : others)
    if (name == other) return std::string(role);
  return name;
}

// Reads a string under `key` into `text`. Returns the problem; empty if there is none.
std::string read_text(const Json& object, const char* key, std::string& text) {
  const auto found = object.find(key);
  if (found == object.end()) return cat("has no key \"", key, "\"");
  if (found->is_string()) {
    text = found->get<std::string>();
    return {};
  }
  if (!found->is_array()) return cat("\"", key, "\" is ", found->type_name(), ", expected a string");
  for (const Json& part : *found) {  // a list of parts, the format of programs that also support images
    const bool is_text =
        part.is_object() && part.value("type", Json()) == "text" && part.contains("text") && part["text"].is_string();
    if (!is_text)
      return cat("\"", key, "\" has a part that is not text, expected {\"type\": \"text\", \"text\": \"...\"}");
    text += part["text"].get<std::string>();
  }
  return {};
}

bool lists_something(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->empty();  // null counts as empty
}

std::string read_turn(const Json& message, const char* role_key, const char* text_key, ChatTurn& turn) {
  if (!message.is_object()) return cat("is ", message.type_name(), ", expected an object");
  const auto role = message.find(role_key);
  if (role == message.end() || !role->is_string()) return cat("has no string under \"", role_key, "\"");
  turn.role = role_of(role->get<std::string>());
  if (lists_something(message, "tool_calls")) return "calls tools (\"tool_calls\"), which is not supported";
  return read_text(message, text_key, turn.text);
}

// Adds the system text that some objects have next to the turns.
void add_system(const Json& object, Turns& found) {
  const auto system = object.find("system");
  if (system == object.end() || system->is_null()) return;
  std::string text;
  found.problem = read_text(object, "system", text);
  if (text.empty()) return;
  found.turns.push_back({"system", std::move(text)});
  found.systems = 1;
}

Turns listed_turns(const Json& object, const char* key, const char* role_key, const char* text_key) {
  Turns found;
  const Json& list = object[key];
  if (!list.is_array()) return {.problem = cat("\"", key, "\" is ", list.type_name(), ", expected a list of turns")};
  add_system(object, found);
  if (!found.problem.empty()) return found;
  for (size_t i = 0; i < list.size(); ++i) {
    ChatTurn turn;
    if (const std::string problem = read_turn(list[i], role_key, text_key, turn); !problem.empty())
      return {.problem = cat("turn ", i + 1, " of \"", key, "\": ", problem)};
    found.turns.push_back(std::move(turn));
  }
  return found;
}

Turns instruction_turns(const Json& object) {
  Turns found;
  std::string instruction, input, output;
  add_system(object, found);
  if (found.problem.empty()) found.problem = read_text(object, "instruction", instruction);
  if (found.problem.empty() && object.contains("input") && !object["input"].is_null())
    found.problem = read_text(object, "input", input);
  if (found.problem.empty()) found.problem = read_text(object, "output", output);
  if (!input.empty()) instruction.append("\n\n").append(input);
  found.turns.push_back({"user", std::move(instruction)});
  found.turns.push_back({"assistant", std::move(output)});
  return found;
}

Turns completion_turns(const Json& object) {
  Turns found;
  std::string prompt, completion;
  add_system(object, found);
  if (found.problem.empty()) found.problem = read_text(object, "prompt", prompt);
  if (found.problem.empty()) found.problem = read_text(object, "completion", completion);
  found.turns.push_back({"user", std::move(prompt)});
  found.turns.push_back({"assistant", std::move(completion)});
  return found;
}

Turns turns_of(const Json& object) {
  if (object.contains("messages")) return listed_turns(object, "messages", "role", "content");
  if (object.contains("conversations")) return listed_turns(object, "conversations", "from", "value");
  if (object.contains("instruction")) return instruction_turns(object);
  if (object.contains("prompt")) return completion_turns(object);
  return {.problem =
              "is not a conversation: expected \"messages\", \"conversations\", \"instruction\" with \"output\", or "
              "\"prompt\" with \"completion\""};
}

}  // namespace

bool is_conversation(const Json& object) {
  return object.is_object() && (object.contains("messages") || object.contains("conversations") ||
                                (object.contains("instruction") && object.contains("output")) ||
                                (object.contains("prompt") && object.contains("completion")));
}

std::string write_conversation(const Json& object, const ConversationForm& form, Document& out) {
  auto [turns, problem, systems] = turns_of(object);
  if (!problem.empty()) return problem;
  if (lists_something(object, "tools")) return "lists tools (\"tools\"), which are not supported";
  for (size_t i = 0; i < turns.size(); ++i) turns[i].number = i + 1 - systems;
  if (problem = form.write(turns, out); !problem.empty()) return problem;
  const auto is_answer = [](const ChatTurn& turn) { return turn.role == "assistant" && !turn.text.empty(); };
  if (std::ranges::none_of(turns, is_answer)) return "has no answer to train on: expected an assistant turn with text";
  return {};
}

}  // namespace hexad::data
