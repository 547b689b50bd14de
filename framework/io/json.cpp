#include "framework/io/json.h"

#include <set>
#include <vector>

#include "framework/base/counted.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr int max_depth = 64;

/// Returns a short description for a message: the beginning of the value, "an object", or "an array of n elements".
std::string excerpt(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return cat("an array of ", counted(std::ssize(value), "element"));
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  // Without this check, nlohmann::json would keep the last of several equal keys. A duplicate key means that the file
  // is damaged.
  std::vector<std::set<std::string>> open;
  int depth = 0;
  const auto inspect = [&](int, nlohmann::detail::parse_event_t event, Json& value) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (++depth > max_depth)
        fail(ExitCode::data, where, ": JSON is nested deeper than ", max_depth, " levels, the maximum");
      if (event == Event::object_start) open.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      --depth;
      if (event == Event::object_end) open.pop_back();
    } else if (event == Event::key && !open.back().insert(value.get<std::string>()).second) {
      fail(ExitCode::data, where, ": the name ", excerpt(value), " appears twice, expected once");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), inspect);
  } catch (const Json::exception& error) {
    std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 7: ..."
    if (const size_t tag = what.find("] "); tag != what.npos) what.remove_prefix(tag + 2);
    fail(ExitCode::data, where, ": not valid JSON: ", what);
  }
}

JsonNode JsonNode::operator[](const char* key) const {
  check(value_.is_object(), "an object");
  const auto found = value_.find(key);
  if (found == value_.end()) check(false, cat("an object with the member '", key, "'"));
  return {*found, where_, path_.empty() ? key : path_ + "." + key};
}

int64_t JsonNode::integer(int64_t low, int64_t high) const {
  const bool fits = value_.is_number_integer() &&
                    (!value_.is_number_unsigned() || value_.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                    value_.get<int64_t>() >= low && value_.get<int64_t>() <= high;
  if (!fits)
    check(false, high == INT64_MAX ? cat("an integer of at least ", low) : cat("an integer from ", low, " to ", high));
  return value_.get<int64_t>();
}

uint64_t JsonNode::unsigned_integer() const {
  check(value_.is_number_unsigned(), "an integer of at least 0");
  return value_.get<uint64_t>();
}

const std::string& JsonNode::text() const {
  check(value_.is_string(), "a string");
  return value_.get_ref<const std::string&>();
}

Shape JsonNode::shape() const {
  if (!value_.is_array() || value_.size() > Shape::max_rank) {
    check(false, cat("an array of at most ", Shape::max_rank, " sizes"));
  }
  std::vector<int64_t> sizes;
  each([&](const JsonNode& size) { sizes.push_back(size.integer()); });
  return Shape(sizes);
}

void JsonNode::check(bool ok, std::string_view expected) const {
  if (ok) return;
  fail(ExitCode::data, where_, ": ", path_.empty() ? "the document" : path_, " is ", excerpt(value_), ", expected ",
       expected);
}

}  // namespace hexad::io
