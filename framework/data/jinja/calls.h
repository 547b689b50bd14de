// Filters, tests, functions and methods that chat templates may use. The functions below throw Error(data) that lists
// the supported names if a name is not supported. This applies to filters, tests and functions, and to methods of a
// text, a message or data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/jinja/value.h"

namespace hexad::data::jinja {

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

/// Applies a filter to `value`: trim, length, count, tojson, first, last, default, list, string, selectattr,
/// rejectattr, items or join.
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, const Site& site);
/// True if `value` passes a test: defined, undefined, none, string, mapping, iterable, sequence, number, boolean, true
/// or false.
bool apply_test(std::string_view name, const Value& value, const Site& site);
/// Calls a function: namespace or raise_exception. raise_exception throws Error(data).
Value call_function(std::string_view name, const Arguments& arguments, const Site& site);
/// Throws Error(data) if `value`, a new member of a namespace, is a namespace or a loop. Without this rule, a namespace
/// could contain itself and would never be freed.
void require_no_cycle(const Value& value, const Site& site);
/// Calls a method: strip, lstrip, rstrip, split, startswith or endswith of a text, or get, items, keys or values of a
/// message or of data.
Value call_method(const Value& object, std::string_view name, const Arguments& arguments, const Site& site);

}  // namespace hexad::data::jinja
