// JSON that came from a file: every access is checked, and a message names the place.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "framework/io/region.h"

namespace hexad::io {

using base::cat;

using Json = nlohmann::json;

/// Strict: a duplicate key, bad UTF-8, deep nesting or trailing text throw Error(data) starting with `where`.
Json parse_json(std::string_view text, const std::string& where);

/// One value of a document. Failures are Error(data) such as "manifest.json: tensors[3].shape is "x", expected an
/// array".
class JsonNode {
 public:
  /// `path`: where `value` is inside the document.
  JsonNode(const Json& value, std::string where, std::string path = "")
      : value_(value), where_(std::move(where)), path_(std::move(path)) {}

  /// A member of an object; missing is an error.
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

  /// An integer of [low, high], written without fraction or exponent.
  int64_t integer(int64_t low = 0, int64_t high = INT64_MAX) const;
  uint64_t unsigned_integer() const;
  const std::string& text() const;
  /// Sizes or indices that make a legal Shape: at most Shape::max_rank, none negative.
  Shape shape() const;
  const Json& value() const { return value_; }

  /// Throws Error(data) with the place, the value and `expected` unless `ok`.
  void check(bool ok, std::string_view expected) const;

 private:
  const Json& value_;
  std::string where_;  // the file
  std::string path_;   // inside it
};

}  // namespace hexad::io
