// Descriptions of JSON values for messages.
#pragma once

#include <string>

namespace hexad::base {

/// Returns the type of `value` (nlohmann::basic_json) with its article, such as "an object"; "null" for null.
template <class Json>
const char* json_kind(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string()) return "a string";
  if (value.is_number()) return "a number";
  if (value.is_boolean()) return "a boolean";
  return value.type_name();
}

/// Returns `value` as text if it is a number, and json_kind() otherwise.
template <class Json>
std::string number_or_kind(const Json& value) {
  return value.is_number() ? value.dump() : json_kind(value);
}

}  // namespace hexad::base
