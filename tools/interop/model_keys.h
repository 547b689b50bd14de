// The recipe keys that determine what a model computes, by path. They are the intermediate form between config.json and
// the recipe.
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

/// Values of recipe keys. Contains the keys of the section `model` that a checkpoint of another program can express.
/// Every key has a value: a key that is missing in a recipe has the recipe's default.
class ModelKeys {
 public:
  ModelKeys();
  /// Reads and resolves the keys of a recipe. Ignores keys that this class does not contain. Throws Error(data) if a
  /// value has the wrong type. The message begins with `where`.
  static ModelKeys from_recipe(const config::Document& recipe, const std::string& where);

  /// True if the value of the key at `path` is an integer. Throws std::logic_error if there is no such key.
  static bool is_integer(std::string_view path);
  /// Returns the value of the key at `path`. Throws std::logic_error if there is no such key.
  const Json& operator[](std::string_view path) const;
  int64_t integer(std::string_view path) const;
  double real(std::string_view path) const;
  bool flag(std::string_view path) const;
  const std::string& text(std::string_view path) const;
  /// Sets the value of the key at `path`. Throws std::logic_error if there is no such key. Throws Error(data) if the
  /// value is neither null nor of the key's type; the message begins with `where`.
  void set(std::string_view path, Json value, const std::string& where);
  /// Replaces each `auto` by the value that it means.
  void resolve();

  /// True if block `layer` has experts.
  bool is_moe(int64_t layer) const;
  /// True if block `layer` has a delta net.
  bool is_delta(int64_t layer) const;
  /// Returns the number of layers and prediction blocks. Prediction blocks follow the layers.
  int64_t blocks() const { return integer("model.layers") + integer("model.prediction_blocks"); }
  int64_t shared_width() const;

  /// Returns a text such as "model.heads: 4 -> 8" for each key that makes the two models compute different functions.
  /// Ignores keys that have no effect in one of the models, keys that only matter in training, and keys that no
  /// config.json can express. Both sets of keys must be resolved.
  static std::vector<std::string> differences(const ModelKeys& before, const ModelKeys& after);
  /// Returns the section `model` of a recipe, as YAML. It contains all sizes that are set and are keys of `model`
  /// itself, such as model.layers. It contains other keys only if they differ from their defaults. The width of the
  /// shared experts is omitted if there are none.
  std::string yaml() const;

 private:
  std::map<std::string, Json> meaning() const;

  std::map<std::string, Json, std::less<>> values_;
};

}  // namespace hexad::interop
