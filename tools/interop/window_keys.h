// The config key layer_types, which says which blocks have sliding windows.
#pragma once

#include <string>

#include "tools/interop/layer_pattern.h"

namespace hexad::interop {

/// Sets model.full_attention_every, and model.window to none if no block has a window. model.layers and model.window
/// must be set. If `config` has no layer_types, every second block has full attention, beginning with the second one
/// (gpt-oss). Throws Error(data) beginning with `where` if no value of the key gives the blocks of `config`.
void read_windows(const Json& config, ModelKeys& keys, const std::string& where);
/// Writes the blocks of `keys` to `config`.
void write_windows(OrderedJson& config, const ModelKeys& keys);

}  // namespace hexad::interop
