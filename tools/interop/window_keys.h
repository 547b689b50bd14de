// The config key layer_types, which determines which blocks have sliding windows or delta nets.
#pragma once

#include <string>

#include "tools/interop/layer_pattern.h"

namespace hexad::interop {

/// Sets model.full_attention_every, and sets model.window to none if no block has a window. model.layers and
/// model.window must already be set. If `config` has no layer_types, every second block has full attention, starting
/// with the second block (gpt-oss). Throws Error(data) if no value of model.full_attention_every describes `config`.
/// The message begins with `where`.
void read_windows(const Json& config, ModelKeys& keys, const std::string& where);
/// Writes the pattern of windows in `keys` to `config`.
void write_windows(OrderedJson& config, const ModelKeys& keys);

/// Sets model.full_attention_every for a model with delta nets. model.layers must already be set. Without layer_types
/// in `config`, every full_attention_interval-th block has full attention. Without full_attention_interval, every
/// fourth block has full attention (Qwen3-Next). Throws Error(data) if no value describes `config`, or if no block has
/// a delta net. The message begins with `where`.
void read_delta_nets(const Json& config, ModelKeys& keys, const std::string& where);
/// Writes the pattern of delta nets in `keys` to `config` as layer_types. Removes full_attention_interval.
void write_delta_nets(OrderedJson& config, const ModelKeys& keys);

}  // namespace hexad::interop
