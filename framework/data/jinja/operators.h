// Operators of expressions in chat templates. They behave like the operators of Python. All functions throw Error(data)
// if a value has a kind that the operator does not support. The error names the template's path and line.
#pragma once

#include <string>
#include <string_view>

#include "framework/data/jinja/value.h"

namespace hexad::data::jinja {

/// Returns object.name: the member of a message, data, a namespace or a loop; undefined if there is none. Throws
/// Error(data) if `object` is undefined, or if `name` is an unsupported member of a loop. Also throws Error(data) if
/// `object` is a message or data, and `name` is a method of Python's dictionaries.
Value member(const Value& object, const std::string& name, const Site& site);
/// Returns object[key]: the member of an object, the item of a list, or the character of a text. Returns undefined if
/// there is none.
Value element(const Value& object, const Value& key, const Site& site);
/// Returns object[begin:end:step] of a list, or of the characters of a text. A missing bound is none.
Value slice(const Value& object, const Value& begin, const Value& end, const Value& step, const Site& site);
/// Returns the result of "==", "!=", "<", "<=", ">", ">=", "in" or "not in".
bool compare(std::string_view name, const Value& left, const Value& right, const Site& site);
/// Returns the result of "+", "-", "*", "//" or "%" of whole numbers. "+" also joins two texts or two lists. "~" joins
/// the results of printed() for two values.
Value apply_operator(std::string_view name, const Value& left, const Value& right, const Site& site);

}  // namespace hexad::data::jinja
