#include "framework/data/chat_record.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/config/words.h"
#include "framework/data/tool_record.h"

namespace hexad::data {
using base::cat;
namespace {

// Turns of one object, or its problem.
struct Turns {
  std::vector<ChatTurn> turns = {};
  std::string problem = {};
  size_t systems = 0;  // 1 if the first turn was taken from a key "system", otherwise 0
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

// Reads the string, or the list of parts with text, under `key` into `text`. Returns the problem; empty if there is
// none.
std::string read_text(const ChatJson& object, const char* key, std::string& text) {
  static constexpr std::array<std::string_view, 2> part_keys{"type", "text"};
  const auto found = object.find(key);
  if (found == object.end()) return cat("has no key \"", key, "\", expected a string under this key");
  if (found->is_string()) {
    text = found->get<std::string>();
    return {};
  }
  if (!found->is_array()) return cat("\"", key, "\" is ", base::json_kind(*found), ", expected a string");
  for (const ChatJson& part : *found) {  // a list of parts, the format of programs that also support images
    const std::string* type = string_under(part, "type");
    const std::string* piece = string_under(part, "text");
    if (type == nullptr || *type != "text" || piece == nullptr)
      return cat("\"", key, "\" has a part that is not text, expected {\"type\": \"text\", \"text\": \"...\"}");
    if (const std::string problem = other_key(part, part_keys); !problem.empty())
      return cat("\"", key, "\" has a part that ", problem);
    text += *piece;
  }
  return {};
}

// Reads an optional text of a tool's turn. Returns the problem; empty if there is none.
std::string read_tool_key(const ChatJson& message, const char* key, std::string& text) {
  const auto found = message.find(key);
  return found == message.end() || counts_as_missing(*found) ? "" : read_text(message, key, text);
}

// Reads "weight", which is 0 for a turn that is not learned. Returns the problem; empty if there is none.
std::string read_weight(const ChatJson& message, bool& is_learned) {
  const auto weight = message.find("weight");
  if (weight == message.end() || counts_as_missing(*weight)) return {};
  const double value = weight->is_number() ? weight->get<double>() : -1;
  if (value != 0 && value != 1)
    return cat("has a \"weight\" that is ", base::number_or_kind(*weight), ", expected 0 (not learned) or 1");
  is_learned = value == 1;
  return {};
}

// Reads ChatTurn::other_texts: the texts under those keys of a turn that no other function reads. Skips values that are
// null or empty. Refuses other values that are not texts. Also refuses the keys "role" and "content" if they are
// neither `role_key` nor `text_key`.
std::string read_other_texts(const ChatJson& message, const char* role_key, const char* text_key, ChatTurn& turn) {
  std::vector<std::string_view> known{role_key, text_key, "tool_calls", "weight"};
  if (turn.role == "tool") known.insert(known.end(), {"name", "tool_call_id"});
  for (const auto& [key, value] : message.items()) {
    if (counts_as_missing(value) || std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    const bool reserved = key == "role" || key == "content";  // templates find the role and the text under these keys
    if (!value.is_string() || reserved)
      return cat("has the key \"", config::shown(key), "\", which is not supported; supported: ", config::join(known),
                 ", and (with --chat-form ", model_form_name, ") other keys with strings");
    turn.other_texts.emplace_back(key, value.get<std::string>());
  }
  return {};
}

std::string read_turn(const ChatJson& message, const char* role_key, const char* text_key, ChatTurn& turn) {
  if (!message.is_object()) return cat("is ", base::json_kind(message), ", expected an object");
  const auto role = message.find(role_key);
  if (role == message.end() || !role->is_string())
    return cat("has no string under \"", role_key, "\", expected the role of the turn");
  turn.role = role_of(role->get<std::string>());
  if (std::string problem = read_tool_calls(message, turn.calls); !problem.empty()) return problem;
  if (!turn.calls.empty() && turn.role != "assistant")
    return cat("calls tools (\"tool_calls\"), but has role \"", config::shown(turn.role), "\", expected assistant");
  if (turn.role == "tool") {
    if (std::string problem = read_tool_key(message, "name", turn.tool); !problem.empty()) return problem;
    if (std::string problem = read_tool_key(message, "tool_call_id", turn.tool_call); !problem.empty()) return problem;
  }
  if (std::string problem = read_weight(message, turn.is_learned); !problem.empty()) return problem;
  if (std::string problem = read_other_texts(message, role_key, text_key, turn); !problem.empty()) return problem;
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

// Adds the earlier turns that some objects have next to the last question: pairs of a question and its answer.
void add_history(const ChatJson& object, Turns& found) {
  constexpr std::string_view expected = ", expected a list of pairs [\"question\", \"answer\"]";
  const auto history = object.find("history");
  if (!found.problem.empty() || history == object.end() || counts_as_missing(*history)) return;
  if (!history->is_array()) {
    found.problem = cat("\"history\" is ", base::json_kind(*history), expected);
    return;
  }
  for (size_t i = 0; i < history->size(); ++i) {
    const ChatJson& pair = (*history)[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      found.problem = cat("element ", i + 1, " of \"history\" is not two strings", expected);
      return;
    }
    found.turns.push_back({"user", pair[0].get<std::string>()});
    found.turns.push_back({"assistant", pair[1].get<std::string>()});
  }
}

Turns listed_turns(const ChatJson& object, const char* key, const char* role_key, const char* text_key) {
  Turns found;
  const ChatJson& list = object[key];
  if (!list.is_array())
    return {.problem = cat("\"", key, "\" is ", base::json_kind(list), ", expected a list of turns")};
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
  add_history(object, found);
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
  add_history(object, found);
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
    return turn.role == "assistant" && turn.is_learned && !(turn.text.empty() && turn.calls.empty());
  };
  if (std::ranges::none_of(conversation.turns, is_answer))
    return "has no answer to train on: expected an assistant turn with text or tool calls, and without \"weight\": 0";
  return {};
}

}  // namespace hexad::data
