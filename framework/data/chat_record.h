// Conversations in JSON objects. Include this header only in .cpp files that include nlohmann/json.hpp.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "framework/data/conversation.h"
#include "framework/data/json_value.h"
#include "framework/data/text_document.h"

namespace hexad::data {

/// True if the object has the keys of a conversation: "messages", "conversations", "instruction" with "output", or
/// "prompt" with "completion".
template <class Json>
bool is_conversation(const Json& object) {
  return object.is_object() && (object.contains("messages") || object.contains("conversations") ||
                                (object.contains("instruction") && object.contains("output")) ||
                                (object.contains("prompt") && object.contains("completion")));
}

/// Writes the conversation of `object` in `form` to `out`. Returns an empty string on success. Otherwise returns a
/// problem to print after the location of the object, for example `turn 2 has role "critic", expected ...`.
std::string write_conversation(const ChatJson& object, const ConversationForm& form, Document& out);

}  // namespace hexad::data
