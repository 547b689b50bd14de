// Config keys of Llama 4 that determine the attention of its blocks: chunks, blocks without rotary positions, and the
// temperature of queries.
#pragma once

#include <string>

#include "tools/interop/layer_pattern.h"

namespace hexad::interop {

/// Returns the config keys that read_llama4() reads, except layer_types.
std::vector<std::string_view> llama4_config_keys();
/// Sets model.no_rotary_every, model.temperature, model.attention_chunk, model.full_attention_every and model.qk_norm.
/// If queries and keys are normalised and YaRN is used, also sets model.yarn.mscale to 0. model.layers and the keys of
/// read_rotary() must already be set. Throws Error(data) if these keys cannot describe `config`. The message begins
/// with `where`.
void read_llama4(const Json& config, ModelKeys& keys, const std::string& where);
/// Writes config keys from which read_llama4() reads `keys`.
void write_llama4(OrderedJson& config, const ModelKeys& keys);

}  // namespace hexad::interop
