// A value of an untrusted JSON file. Every error message names the file and the key of the value.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/json_kind.h"

namespace hexad::data {

inline constexpr int64_t largest_config = int64_t{16} << 20;  // maximum bytes of a JSON file next to a tokenizer

class JsonField {
 public:
  /// Refers to `json`, which must outlive this object. `key` is the path of the value in `file`; empty: the whole file.
  JsonField(std::string file, const nlohmann::json& json, std::string key = {})
      : file_(std::move(file)), key_(std::move(key)), json_(&json) {}

  const nlohmann::json& json() const { return *json_; }
  /// Returns the file and the key, for messages.
  std::string place() const { return key_.empty() ? file_ : base::cat(file_, ": '", key_, "'"); }

  /// Throws Error(data) with the message "FILE: damaged tokenizer: 'KEY'", followed by `parts`. For the whole file,
  /// 'KEY' is "the file".
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    base::fail(base::ExitCode::data, file_,
               ": damaged tokenizer: ", key_.empty() ? "the file" : base::cat("'", key_, "'"), parts...);
  }

  /// Like fail(), with "tokenizer not supported" in place of "damaged tokenizer". Call it for a value that may be
  /// correct but that Hexad does not support.
  template <class... Parts>
  [[noreturn]] void fail_unsupported(const Parts&... parts) const {
    base::fail(base::ExitCode::data, file_,
               ": tokenizer not supported: ", key_.empty() ? "the file" : base::cat("'", key_, "'"), parts...);
  }

  /// Returns a member of an object. Throws Error(data) if it is missing.
  JsonField operator[](const char* key) const {
    require_kind(json_->is_object(), "an object");
    const auto found = json_->find(key);
    if (found == json_->end())
      base::fail(base::ExitCode::data, file_, ": damaged tokenizer: no '", path_of(key),
                 "', expected an object with this key");
    return {file_, *found, path_of(key)};
  }
  /// Returns a member of an object, or nullopt if it is missing or null.
  std::optional<JsonField> find(const char* key) const {
    require_kind(json_->is_object(), "an object");
    const auto found = json_->find(key);
    if (found == json_->end() || found->is_null()) return std::nullopt;
    return JsonField(file_, *found, path_of(key));
  }
  /// Returns an element of a list. Throws Error(data) if the value is not a list or has no such element.
  JsonField at(size_t index) const {
    if (index >= size()) fail(" has ", base::counted(std::ssize(*json_), "element"), ", expected at least ", index + 1);
    return {file_, (*json_)[index], base::cat(key_, "[", index, "]")};
  }
  /// Returns the number of elements of a list. Throws Error(data) if the value is not a list.
  size_t size() const {
    require_kind(json_->is_array(), "a list");
    return json_->size();
  }

  /// Throws Error(data) if `depth`, the number of enclosing values of type Sequence, exceeds the maximum of 8.
  void require_depth(int depth) const {
    constexpr int max_nested = 8;
    if (depth > max_nested)
      base::fail(base::ExitCode::data, place(), " is nested more than ", max_nested, " levels deep, the maximum");
  }

  const std::string& text() const {
    require_kind(json_->is_string(), "a string");
    return json_->get_ref<const std::string&>();
  }
  double number() const {
    require_kind(json_->is_number(), "a number");
    return json_->get<double>();
  }
  int64_t integer(int64_t minimum, int64_t maximum) const {
    const bool legal = json_->is_number_integer() &&
                       (!json_->is_number_unsigned() || json_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                       json_->get<int64_t>() >= minimum && json_->get<int64_t>() <= maximum;
    if (!legal)  // dump() is recursive, so only a number is printed
      fail(" is ", base::number_or_kind(*json_), ", expected a whole number from ", minimum, " to ", maximum);
    return json_->get<int64_t>();
  }
  /// Returns the member `key`; `otherwise` if it is missing or null. Throws Error(data) if it has a wrong type.
  bool flag(const char* key, bool otherwise) const {
    const auto field = find(key);
    if (!field) return otherwise;
    field->require_kind(field->json_->is_boolean(), "true or false");
    return field->json_->get<bool>();
  }
  std::string text(const char* key, std::string_view otherwise) const {
    const auto field = find(key);
    return field ? field->text() : std::string(otherwise);
  }

 private:
  std::string path_of(std::string_view key) const {
    return key_.empty() ? std::string(key) : base::cat(key_, ".", key);
  }
  void require_kind(bool ok, const char* expected) const {
    if (!ok) fail(" is ", base::json_kind(*json_), ", expected ", expected);
  }

  std::string file_, key_;
  const nlohmann::json* json_;
};

}  // namespace hexad::data
