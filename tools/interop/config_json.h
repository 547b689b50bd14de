// Translation between a config.json and the keys of a recipe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/family.h"
#include "tools/interop/layer_pattern.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

/// Parsed config.json.
struct ForeignConfig {
  const Family* family;
  ModelKeys keys;              // resolved
  std::string dtype;           // value of torch_dtype or dtype, for example "bfloat16"; empty: neither is set
  int64_t prediction_blocks;   // number of prediction blocks after the last layer; Hexad reads their tensors only if
                               // the family has the key model.prediction_blocks
  std::string prediction_key;  // config key that gives prediction_blocks; empty if there are none
  std::vector<std::string> notes;  // notes for the user, such as keys whose effect on training is ignored
  bool fp8_blocks = false;         // true if weights may be stored in fp8 with a scale for each block
};

/// Parses a config.json. Throws Error(data) if the family is unknown, or if a key is missing or has a wrong type. Also
/// throws if a key would change the model in a way that Hexad cannot represent. The message begins with `where` and
/// names the key.
ForeignConfig read_config(std::string_view text, const std::string& where);

/// Returns the text of a config.json for `model`, whose keys must be resolved. `like` is the config.json of the
/// original model. The result keeps the keys of `like` that have no counterpart in a recipe, except
/// quantization_config. If `like` describes the same model with the same dtype, and is not quantized, returns `like`
/// unchanged. If `like` is empty, makes a new config.json. `dtype` is the new value of dtype or torch_dtype; empty:
/// keeps the value of `like`. Replaces NTK scaling by a larger rope_theta. Throws Error(data) naming the recipe key if
/// the family cannot express the model.
std::string write_config(const Family& family, const ModelKeys& model, const std::string& like, std::string_view dtype);

}  // namespace hexad::interop
