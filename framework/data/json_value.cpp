#include "framework/data/json_value.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::data {

using base::cat;
namespace {

using jinja::Origin;
using jinja::Value;

constexpr int max_nested = 32;
constexpr size_t max_keys = 1000;

class Reader {
 public:
  Value read(const ChatJson& json, int depth) {
    if (depth > max_nested)
      problem_ = cat("has objects and lists nested more than ", max_nested, " levels deep, the maximum");
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
    if (json.size() > max_keys)
      problem_ = cat("has an object with ", json.size(), " keys, expected at most ", max_keys);
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
  // Refuses numbers whose absolute value is at least 2^63. The parser reads whole numbers above 64 bits as decimal
  // numbers, and loses their last digits.
  Value decimal(double number) {
    constexpr double limit = 9223372036854775808.0;
    if (std::abs(number) >= limit)
      problem_ = cat("has the number ", number, ", expected numbers above -2^63 and below 2^63");
    return jinja::decimal(number);
  }

  std::string problem_;
};

}  // namespace

std::string read_value(const ChatJson& json, Value& value) {
  Reader reader;
  value = reader.read(json, 1);
  return reader.take_problem();
}

}  // namespace hexad::data
