// Config keys of the rotary positions. Version 4 of the Transformers library writes rope_theta, rope_scaling and
// partial_rotary_factor. Version 5 writes rope_parameters, which contains all three.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/family.h"
#include "tools/interop/layer_pattern.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

/// Returns the config keys that read_rotary() reads, except Family::theta_key.
std::vector<std::string_view> rotary_config_keys();

/// Sets the recipe's keys of rotary positions. model.context must already be set. Throws Error(data) if Hexad cannot
/// represent a key. The message begins with `where` and names this key.
void read_rotary(const Json& config, const Family& family, ModelKeys& keys, const std::string& where);
/// True if the rotary keys describe positions of images. Such keys have no effect on text.
bool has_image_positions(const Json& config);
/// True if rope_type is `dynamic`. Such a model has no scaling up to max_position_embeddings positions.
bool has_dynamic_rotary(const Json& config);
/// True if the rotary scaling of a model depends on its training context, and `config` does not state this context. In
/// this case, max_position_embeddings determines the training context. `keys` are the recipe keys that were read from
/// `config`.
bool implies_original_context(const OrderedJson& config, const ModelKeys& keys);
/// Returns keys of the same model without NTK scaling, which config.json cannot express. A larger rotary_theta replaces
/// the scaling. `rotary` is the number of dimensions of a head that rotate.
ModelKeys without_ntk(ModelKeys keys, int64_t rotary);
/// Writes the keys in the form that `config` already uses. Transformers 4 and 5 both read the form of a new config.
void write_rotary(OrderedJson& config, const Family& family, const ModelKeys& keys);

}  // namespace hexad::interop
