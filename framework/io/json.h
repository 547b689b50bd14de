// JSON from files. Every access is checked, and messages name the location of an error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "framework/io/region.h"

namespace hexad::io {

using base::cat;

using Json = nlohmann::json;

/// Parses JSON strictly. Throws Error(data) if the text is not valid JSON in UTF-8. Also throws Error(data) for a
/// duplicate key, nesting deeper than 64 levels, and trailing text. The message begins with `where`.
Json parse_json(std::string_view text, const std::string& where);

/// A value in a document. Errors are Error(data) with messages like "manifest.json: content.step is "x", expected an
/// integer of at least 0".
class JsonNode {
 public:
  /// Refers to `value`. `where` is the name of the file, and `path` is the location of `value` in the file. `value`
  /// must outlive the node.
  JsonNode(const Json& value, std::string where, std::string path = "")
      : value_(value), where_(std::move(where)), path_(std::move(path)) {}

  /// Returns a member of an object. Throws Error(data) if the value is not an object or has no such member.
  JsonNode operator[](const char* key) const;
  /// Calls use(JsonNode) for each element of an array.
  template <class Use>
  void each(Use&& use) const {
    check(value_.is_array(), "an array");
    for (size_t i = 0; i < value_.size(); ++i) use(JsonNode(value_[i], where_, cat(path_, "[", i, "]")));
  }
  /// Calls use(key, JsonNode) for each member of an object.
  template <class Use>
  void members(Use&& use) const {
    check(value_.is_object(), "an object");
    for (const auto& [key, value] : value_.items())
      use(key, JsonNode(value, where_, path_.empty() ? key : path_ + "." + key));
  }

  /// Returns an integer, which must be in [low, high] and be written without fraction or exponent.
  int64_t integer(int64_t low = 0, int64_t high = INT64_MAX) const;
  uint64_t unsigned_integer() const;
  const std::string& text() const;
  /// Returns sizes or indices that are a legal Shape: at most Shape::max_rank numbers of at least 0.
  Shape shape() const;
  const Json& value() const { return value_; }

  /// Throws Error(data) with the location, the value and `expected` if `ok` is false.
  void check(bool ok, std::string_view expected) const;

 private:
  const Json& value_;
  std::string where_;  // name of the file
  std::string path_;   // location in the file
};

}  // namespace hexad::io
