// Config keys that determine which blocks have experts.
#pragma once

#include <string>

#include "tools/interop/family.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

using OrderedJson = nlohmann::ordered_json;

/// Returns the config keys that the pattern reads.
std::vector<std::string_view> keys_of(LayerPattern pattern);

/// Sets model.moe.dense_layers and model.moe.every. Throws Error(data) beginning with `where` if no values of these two
/// keys describe the MoE blocks of `config`.
void read_pattern(const Json& config, LayerPattern pattern, ModelKeys& keys, const std::string& where);
/// Writes the pattern of MoE blocks in `keys` to `config`.
void write_pattern(OrderedJson& config, LayerPattern pattern, const ModelKeys& keys);

}  // namespace hexad::interop
