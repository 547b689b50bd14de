// Config keys that determine which blocks have experts, and helpers for patterns of blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/family.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

using OrderedJson = nlohmann::ordered_json;

/// True if `layer` is an `every`-th block, counted from the first block; false if `every` is 0.
bool is_nth(int64_t layer, int64_t every);
/// Returns the n for which exactly every n-th block is marked: 0 if no block is marked, and nullopt if there is no such
/// n.
std::optional<int64_t> period_of(const std::vector<bool>& marks);
/// Returns the numbers of the marked blocks, counted from 1, such as "2, 3". Lists at most ten.
std::string marked_blocks(const std::vector<bool>& marks);

/// Returns the config keys that the pattern reads.
std::vector<std::string_view> keys_of(LayerPattern pattern);

/// Sets model.moe.dense_layers and model.moe.every if `pattern` is not none. Throws Error(data) if no values of these
/// two keys describe the MoE blocks of `config`. The message begins with `where`.
void read_pattern(const Json& config, LayerPattern pattern, ModelKeys& keys, const std::string& where);
/// Writes the pattern of MoE blocks in `keys` to `config`. Writes nothing if `pattern` is none or all.
void write_pattern(OrderedJson& config, LayerPattern pattern, const ModelKeys& keys);

}  // namespace hexad::interop
