// JSON of conversations. Include this header only in .cpp files that include nlohmann/json.hpp.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace hexad::data {

/// JSON of conversations. Its objects keep the order of their keys, because chat templates write tools in this order.
/// ChatJson::parse() takes quadratic time, because it compares each key with all earlier keys of the object.
/// ChatJson::parse() also copies the values of objects that grow, and copies of deeply nested JSON are recursive.
using ChatJson = nlohmann::ordered_json;

/// Parses `text` in linear time. A repeated key keeps its first position and its last value, like in Python. Returns an
/// empty string on success. Otherwise returns the problem, such as "[...] parse error at line 1, column 7: ...", and
/// sets `json` to null.
std::string parse_chat_json(std::string_view text, ChatJson& json);

}  // namespace hexad::data
