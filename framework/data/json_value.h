// Values of chat templates from JSON. Include this header only in .cpp files that include nlohmann/json.hpp.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/data/jinja/value.h"

namespace hexad::data {

/// JSON of conversations. Its objects keep the order of their keys, because chat templates write tools in this order.
/// Its parser compares each key with all earlier keys, so too_many_keys() must refuse large objects beforehand.
using ChatJson = nlohmann::ordered_json;

/// Returns an empty text if no object in the JSON `text` has more than 20,000 keys, or if `text` is not JSON. Otherwise
/// returns a problem such as "has an object with 30000 keys, expected at most 20000".
std::string too_many_keys(std::string_view text);

/// Converts `json`, for example the arguments of a tool, to `value`. Its texts and keys have the origin message.
/// Returns an empty text on success. Otherwise returns a problem such as "has the number 1e+300, expected ...".
std::string read_value(const ChatJson& json, jinja::Value& value);

}  // namespace hexad::data
