// The recipe keys that determine what a model computes, by path. They stand between a config.json and a recipe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/document.h"
#include "framework/io/json.h"

namespace hexad::interop {

using base::cat;
using io::Json;

/// Values of the keys of a recipe's section `model` that a checkpoint of another program can express. Every key has a
/// value; keys that a recipe does not write have the recipe's defaults.
class ModelKeys {
 public:
  ModelKeys();
  /// Reads the keys of a recipe. Keys that are not known here are ignored. Throws Error(data) beginning with `where` if
  /// a value has the wrong type.
  static ModelKeys of_recipe(const config::Document& recipe, const std::string& where);

  /// Returns a value. Throws std::logic_error if there is no key of this path.
  const Json& operator[](std::string_view path) const;
  int64_t integer(std::string_view path) const;
  double real(std::string_view path) const;
  bool flag(std::string_view path) const;
  const std::string& text(std::string_view path) const;
  /// Sets a value, converted to the type of the key. Throws std::logic_error if there is no key of this path, and
  /// Error(data) beginning with `where` if the value has another type.
  void set(std::string_view path, Json value, const std::string& where);
  /// Replaces `auto` by the value that it stands for.
  void resolve();

  /// True if block `layer` has experts.
  bool is_moe(int64_t layer) const;
  int64_t shared_width() const;

  /// Returns a text such as "model.heads: 4 -> 8" for each key that makes these models compute different functions.
  /// Keys without an effect in both models are ignored, and so are keys that only matter in training. Both must be
  /// resolved.
  static std::vector<std::string> differences(const ModelKeys& before, const ModelKeys& after);
  /// Returns the section `model` of a recipe, as YAML. It has all sizes, and the other keys that differ from their
  /// defaults.
  std::string yaml() const;

 private:
  std::map<std::string, Json> meaning() const;

  std::map<std::string, Json, std::less<>> values_;
};

}  // namespace hexad::interop
