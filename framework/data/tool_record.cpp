#include "framework/data/tool_record.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/config/words.h"

namespace hexad::data {

using base::cat;
namespace {

constexpr std::string_view call_example = R"({"type": "function", "function": {"name": "...", "arguments": {...}}})";
constexpr std::string_view tool_example =
    R"({"type": "function", "function": {"name": "...", "description": "...", "parameters": {...}}})";

bool is_missing(const ChatJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null();
}

bool lists_something(const ChatJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !counts_as_missing(*found);
}

std::string wrong_type(const ChatJson& object) {
  if (is_missing(object, "type")) return {};
  const ChatJson& type = object["type"];
  if (!type.is_string()) return cat("has a \"type\" that is ", base::json_kind(type), ", expected \"function\"");
  const std::string& text = type.get_ref<const std::string&>();
  return text == "function" ? "" : cat("has the type \"", config::shown(text), "\", expected \"function\"");
}

bool has_name(const ChatJson& function) {
  const auto name = function.find("name");
  return name != function.end() && name->is_string() && !name->get_ref<const std::string&>().empty();
}

// Sets `value` to an object with the members of `object` that are not null, in the same order. The member `except` has
// the value `replaced`. Returns the first problem; empty if there is none. JSON is not copied, because copies of deeply
// nested JSON are recursive.
std::string read_members(const ChatJson& object, std::string_view except, const jinja::Value& replaced,
                         jinja::Value& value) {
  jinja::Object made{jinja::ObjectKind::data};
  for (const auto& [key, member] : object.items()) {
    if (member.is_null()) continue;
    jinja::Value& read = made.members.emplace_back(key, replaced).second;
    if (key == except) continue;
    if (std::string problem = read_value(member, read); !problem.empty()) return problem;
  }
  value = jinja::object_value(std::move(made));
  return {};
}

std::string read_call(const ChatJson& given, jinja::Value& call) {
  static constexpr std::array<std::string_view, 3> call_keys{"id", "type", "function"};
  static constexpr std::array<std::string_view, 2> function_keys{"name", "arguments"};
  if (!given.is_object()) return cat("is ", base::json_kind(given), ", expected an object such as ", call_example);
  if (is_missing(given, "function") || !given["function"].is_object())
    return cat("has no object under \"function\", expected an object such as ", call_example);
  const ChatJson& function = given["function"];
  if (std::string problem = other_key(given, call_keys); !problem.empty()) return problem;
  if (std::string problem = other_key(function, function_keys); !problem.empty())
    return cat("has a \"function\" that ", problem);
  if (std::string problem = wrong_type(given); !problem.empty()) return problem;
  if (!is_missing(given, "id") && !given["id"].is_string())
    return cat("has an \"id\" that is ", base::json_kind(given["id"]), ", expected a string");
  if (!has_name(function)) return "has no name under \"function\", expected a string under \"name\"";
  if (is_missing(function, "arguments") || !(function["arguments"].is_object() || function["arguments"].is_string()))
    return "has no arguments under \"function\", expected an object or a string with JSON under \"arguments\"";
  jinja::Value named;
  if (std::string problem = read_members(function, "", {}, named); !problem.empty()) return problem;
  return read_members(given, "function", named, call);
}

std::string read_tool(const ChatJson& given, jinja::Value& tool) {
  if (!given.is_object()) return cat("is ", base::json_kind(given), ", expected an object such as ", tool_example);
  if (std::string problem = wrong_type(given); !problem.empty()) return problem;
  const bool nested = !is_missing(given, "function");
  if (nested && !given["function"].is_object())
    return cat("has a \"function\" that is ", base::json_kind(given["function"]), ", expected an object");
  if (!has_name(nested ? given["function"] : given))
    return cat("has no name, expected an object such as ", tool_example);
  return read_value(given, tool);
}

// Reads the items of the list under `key`, and appends their values to `values`. Returns the first problem; empty if
// there is none, or if the list counts as missing.
template <class Read>
std::string read_items(const ChatJson& object, const char* key, std::string_view item, const Read& read,
                       std::vector<jinja::Value>& values) {
  if (!lists_something(object, key)) return {};
  const ChatJson& list = object[key];
  if (!list.is_array()) return cat("\"", key, "\" is ", base::json_kind(list), ", expected a list of objects");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string problem = read(list[i], values.emplace_back());
    if (!problem.empty()) return cat("has a problem in ", item, " ", i + 1, " of \"", key, "\": it ", problem);
  }
  return {};
}

}  // namespace

bool counts_as_missing(const ChatJson& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::string other_key(const ChatJson& object, std::span<const std::string_view> known) {
  for (const auto& [key, value] : object.items())
    if (!counts_as_missing(value) && std::ranges::find(known, std::string_view(key)) == known.end())
      return cat("has the key \"", config::shown(key), "\", which is not supported; supported: ", config::join(known));
  return {};
}

std::string read_tool_calls(const ChatJson& message, std::vector<jinja::Value>& calls) {
  if (lists_something(message, "function_call"))
    return cat("calls a tool under \"function_call\", which is not supported; write \"tool_calls\": [", call_example,
               "]");
  return read_items(message, "tool_calls", "call", read_call, calls);
}

std::string read_tools(const ChatJson& object, std::vector<jinja::Value>& tools) {
  if (lists_something(object, "functions"))
    return cat("lists tools under \"functions\", which is not supported; write \"tools\": [", tool_example, "]");
  return read_items(object, "tools", "tool", read_tool, tools);
}

}  // namespace hexad::data
