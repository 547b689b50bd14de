// Tools and their calls in JSON objects of conversations. Include this header only in .cpp files that include
// nlohmann/json.hpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/data/jinja/value.h"
#include "framework/data/json_value.h"

namespace hexad::data {

/// True if `value` is null, or an empty string, list or object.
bool counts_as_missing(const ChatJson& value);

/// Returns a problem if an object has a key that is not in `known` and whose value does not count as missing. An
/// example is `has the key "x", which is not supported; supported: a, b`. Otherwise returns an empty string.
std::string other_key(const ChatJson& object, std::span<const std::string_view> known);

/// Reads the calls under "tool_calls" of a turn. Converts each call to an object {"id", "type", "function": {"name",
/// "arguments"}}. "id" and "type" may be missing, "name" is a text, and "arguments" is an object or a text. Keys with
/// null count as missing. Returns an empty string on success, otherwise a problem such as `has a problem in call 2 of
/// "tool_calls": it has the key "x", which is not supported; ...`. A call in an older format is a problem, too.
std::string read_tool_calls(const ChatJson& message, std::vector<jinja::Value>& calls);

/// Reads the descriptions of tools under "tools" of a conversation. Each description is an object with a name. Returns
/// a problem like read_tool_calls().
std::string read_tools(const ChatJson& object, std::vector<jinja::Value>& tools);

}  // namespace hexad::data
