// Conversations, and the forms that convert them to documents.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/jinja/value.h"
#include "framework/data/text_document.h"

namespace hexad::data {

struct ChatTurn {
  std::string role;  // system, user, assistant or tool
  std::string text;
  size_t number = 0;                      // counted from 1; 0: the text under the key "system"
  std::vector<jinja::Value> calls = {};   // tool calls in an answer; each is an object (see docs/data.md)
  bool has_text = true;                   // false: the answer has only calls
  std::string tool = {}, tool_call = {};  // in a tool's turn, the tool's name and the call's id; empty if unknown
  bool is_learned = true;                 // false: an answer that is not a training target
  std::vector<std::pair<std::string, std::string>> other_texts = {};  // other keys with texts, such as name
};

struct Conversation {
  std::vector<ChatTurn> turns;
  std::vector<jinja::Value> tools = {};  // descriptions of the tools that answers may call; each is an object
};

/// Returns the location of a turn for messages: "turn 2", or "the key "system"".
std::string place_of(const ChatTurn& turn);

/// A form of conversations: the marks around the turns. Thread-safe.
class ConversationForm {
 public:
  virtual ~ConversationForm() = default;

  /// Writes a whole conversation to `out`. Learned answers and the mark after each learned answer are targets of
  /// training. Returns an empty string on success. Otherwise returns a problem to print after the location of the
  /// conversation. An example is an element of ChatTurn::other_texts that the form does not write.
  virtual std::string write(const Conversation& conversation, Document& out) const = 0;
  /// Writes the turns before an answer, and the mark that begins the answer. Returns a problem like write().
  virtual std::string write_question(const Conversation& conversation, Document& out) const = 0;
  /// Returns the mark after an answer; empty if there is none. Throws Error(data) if the form cannot write an answer.
  virtual std::string end_of_answer() const = 0;
  /// Returns an empty string if the form has `role`, otherwise a string such as "--chat-form gemma has user,
  /// assistant".
  virtual std::string missing_role_text(std::string_view role) const = 0;
};

/// Name of the form that the chat template of a model defines.
inline constexpr std::string_view model_form_name = "model";

/// Returns the form with this name. The form `model` reads the chat template in `folder` (see read_chat_template()).
/// Throws Error(usage) if the name is unknown, and Error(data) if the chat template cannot be read or is not supported.
std::shared_ptr<const ConversationForm> conversation_form(std::string_view name, const std::string& folder);

}  // namespace hexad::data
