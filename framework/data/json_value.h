// Values of chat templates from JSON. Include this header only in .cpp files that include nlohmann/json.hpp.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "framework/data/chat_json.h"
#include "framework/data/jinja/value.h"

namespace hexad::data {

/// Converts `json`, for example the arguments of a tool, to `value`. The texts and keys of `value` get Origin::message.
/// Returns an empty string on success. Otherwise returns a problem such as "has the number 1e+300, expected ...".
std::string read_value(const ChatJson& json, jinja::Value& value);

}  // namespace hexad::data
