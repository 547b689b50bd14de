#include "framework/data/chat_record.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/tool_record.h"

namespace hexad::data {
using base::cat;
namespace {

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

// Returns the string under `key`; null if there is none. JSON is not copied, because copies of deeply nested JSON are
// recursive.
const std::string* string_under(const ChatJson& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : found->get_ptr<const std::string*>();
}

// Reads a string under `key` into `text`. Returns the problem; empty if there is none.
std::string read_text(const ChatJson& object, const char* key, std::string& text) {
  const auto found = object.find(key);
  if (found == object.end()) return cat("has no key \"", key, "\"");
  if (found->is_string()) {
    text = found->get<std::string>();
    return {};
  }
  if (!found->is_array()) return cat("\"", key, "\" is ", found->type_name(), ", expected a string");
  for (const ChatJson& part : *found) {  // a list of parts, the format of programs that also support images
    const std::string* type = string_under(part, "type");
    const std::string* piece = string_under(part, "text");
    if (type == nullptr || *type != "text" || piece == nullptr)
      return cat("\"", key, "\" has a part that is not text, expected {\"type\": \"text\", \"text\": \"...\"}");
    text += *piece;
  }
  return {};
}

// Reads an optional string of a tool's turn.
std::string read_tool_key(const ChatJson& message, const char* key, std::string& text) {
  const auto found = message.find(key);
  return found == message.end() || found->is_null() ? "" : read_text(message, key, text);
}

std::string read_turn(const ChatJson& message, const char* role_key, const char* text_key, ChatTurn& turn) {
  if (!message.is_object()) return cat("is ", message.type_name(), ", expected an object");
  const auto role = message.find(role_key);
  if (role == message.end() || !role->is_string()) return cat("has no string under \"", role_key, "\"");
  turn.role = role_of(role->get<std::string>());
  if (std::string problem = read_tool_calls(message, turn.calls); !problem.empty()) return problem;
  if (!turn.calls.empty() && turn.role != "assistant")
    return cat("calls tools (\"tool_calls\"), but has role \"", config::shown(turn.role), "\", expected assistant");
  if (turn.role == "tool") {
    if (std::string problem = read_tool_key(message, "name", turn.tool); !problem.empty()) return problem;
    if (std::string problem = read_tool_key(message, "tool_call_id", turn.tool_call); !problem.empty()) return problem;
  }
  const auto text = message.find(text_key);
  turn.has_text = turn.calls.empty() || (text != message.end() && !text->is_null());
  return turn.has_text ? read_text(message, text_key, turn.text) : "";
}

// Adds the system text that some objects have next to the turns.
void add_system(const ChatJson& object, Turns& found) {
  const auto system = object.find("system");
  if (system == object.end() || system->is_null()) return;
  std::string text;
  found.problem = read_text(object, "system", text);
  if (text.empty()) return;
  found.turns.push_back({"system", std::move(text)});
  found.systems = 1;
}

Turns listed_turns(const ChatJson& object, const char* key, const char* role_key, const char* text_key) {
  Turns found;
  const ChatJson& list = object[key];
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

Turns instruction_turns(const ChatJson& object) {
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

Turns completion_turns(const ChatJson& object) {
  Turns found;
  std::string prompt, completion;
  add_system(object, found);
  if (found.problem.empty()) found.problem = read_text(object, "prompt", prompt);
  if (found.problem.empty()) found.problem = read_text(object, "completion", completion);
  found.turns.push_back({"user", std::move(prompt)});
  found.turns.push_back({"assistant", std::move(completion)});
  return found;
}

Turns turns_of(const ChatJson& object) {
  if (object.contains("messages")) return listed_turns(object, "messages", "role", "content");
  if (object.contains("conversations")) return listed_turns(object, "conversations", "from", "value");
  if (object.contains("instruction")) return instruction_turns(object);
  if (object.contains("prompt")) return completion_turns(object);
  return {.problem =
              "is not a conversation: expected \"messages\", \"conversations\", \"instruction\" with \"output\", or "
              "\"prompt\" with \"completion\""};
}

}  // namespace

std::string write_conversation(const ChatJson& object, const ConversationForm& form, Document& out) {
  auto [turns, problem, systems] = turns_of(object);
  if (!problem.empty()) return problem;
  for (size_t i = 0; i < turns.size(); ++i) turns[i].number = i + 1 - systems;
  Conversation conversation{.turns = std::move(turns)};
  if (problem = read_tools(object, conversation.tools); !problem.empty()) return problem;
  if (problem = form.write(conversation, out); !problem.empty()) return problem;
  const auto is_answer = [](const ChatTurn& turn) {
    return turn.role == "assistant" && !(turn.text.empty() && turn.calls.empty());
  };
  if (std::ranges::none_of(conversation.turns, is_answer))
    return "has no answer to train on: expected an assistant turn with text or calls of tools";
  return {};
}

}  // namespace hexad::data
