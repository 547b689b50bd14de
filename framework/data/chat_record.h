// Conversations in JSON objects. Include this header only in .cpp files that include nlohmann/json.hpp.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "framework/data/conversation.h"
#include "framework/data/document.h"

namespace hexad::data {

/// True if the object has the keys of a conversation: "messages", "conversations", "instruction" with "output", or
/// "prompt" with "completion".
bool is_conversation(const nlohmann::json& object);

/// Writes the conversation of `object` in `form` to `out`. Returns an empty text on success. Otherwise returns a
/// problem to print after the location of the object, for example `turn 2 has role "critic", expected ...`.
std::string write_conversation(const nlohmann::json& object, const ConversationForm& form, Document& out);

}  // namespace hexad::data
