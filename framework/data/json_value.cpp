#include "framework/data/json_value.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::data {

using base::cat;
namespace {

using jinja::Origin;
using jinja::Value;

constexpr int most_nested = 32;
constexpr size_t most_keys = 1000;

class Reader {
 public:
  Value read(const ChatJson& json, int depth) {
    if (depth > most_nested) problem_ = cat("nests objects and lists more than ", most_nested, " times, the maximum");
    if (!problem_.empty()) return {};
    switch (json.type()) {
      case ChatJson::value_t::object:
        return object(json, depth);
      case ChatJson::value_t::array: {
        std::vector<Value> items;
        for (const ChatJson& item : json) items.push_back(read(item, depth + 1));
        return jinja::data_list(std::move(items));
      }
      case ChatJson::value_t::string:
        return jinja::text_value(json.get<std::string>(), Origin::message);
      case ChatJson::value_t::boolean:
        return jinja::boolean(json.get<bool>());
      case ChatJson::value_t::number_integer:
        return jinja::number(json.get<int64_t>());
      case ChatJson::value_t::number_unsigned:
        return whole_number(json);
      case ChatJson::value_t::number_float:
        return decimal(json.get<double>());
      default:
        return jinja::none();
    }
  }
  std::string take_problem() { return std::move(problem_); }

 private:
  Value object(const ChatJson& json, int depth) {
    if (json.size() > most_keys)
      problem_ = cat("has an object with ", json.size(), " keys, expected at most ", most_keys);
    jinja::Object made{jinja::ObjectKind::data};
    for (const auto& [key, item] : json.items()) made.members.emplace_back(key, read(item, depth + 1));
    return jinja::object_value(std::move(made));
  }
  Value whole_number(const ChatJson& json) {
    const auto number = json.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      problem_ = cat("has the number ", number, ", expected at most ", std::numeric_limits<int64_t>::max());
    return jinja::number(static_cast<int64_t>(number));
  }
  // A whole number of this size would have lost digits, and can no longer be told from a decimal number.
  Value decimal(double number) {
    constexpr double limit = 9223372036854775808.0;
    if (std::abs(number) >= limit) problem_ = cat("has the number ", number, ", expected numbers below 2^63");
    return jinja::decimal(number);
  }

  std::string problem_;
};

// Returns the largest number of keys that an object within `json` has.
int64_t most_keys_of(const nlohmann::json& json) {
  int64_t most = 0;
  std::vector<const nlohmann::json*> open{&json};
  while (!open.empty()) {
    const nlohmann::json& now = *open.back();
    open.pop_back();
    if (now.is_object()) most = std::max(most, static_cast<int64_t>(now.size()));
    if (!now.is_structured()) continue;
    for (const nlohmann::json& inner : now) open.push_back(&inner);
  }
  return most;
}

}  // namespace

std::string too_many_keys(std::string_view text) {
  constexpr int64_t most = 20'000;
  if (std::ranges::count(text, ':') <= most) return {};  // every key has a colon
  const int64_t keys = most_keys_of(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false));
  return keys <= most ? "" : cat("has an object with ", keys, " keys, expected at most ", most);
}

std::string read_value(const ChatJson& json, Value& value) {
  Reader reader;
  value = reader.read(json, 1);
  return reader.take_problem();
}

}  // namespace hexad::data
