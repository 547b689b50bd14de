#include "tools/interop/llama4_keys.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr const char *chunked = "chunked_attention", *unchunked = "full_attention";
constexpr int64_t usual_interval = 4, usual_chunk = 8192, usual_floor = 8192, max_tokens = int64_t{1} << 32;
constexpr double usual_scale = 0.1;

/// Returns the value of a key; null if it is missing.
Json value_or_null(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found == config.end() ? Json() : *found;
}

/// Returns the n for which exactly every n-th block is marked; 0 if no block is marked. Throws Error(data) if there is
/// no such n.
int64_t period_of_marks(const std::vector<bool>& marks, const char* key, const std::string& where) {
  const auto every = period_of(marks);
  if (!every)
    fail(ExitCode::data, where, ": ", key,
         " marks blocks that are not every n-th block for any n: ", marked_blocks(marks),
         "; expected blocks n, 2n, 3n and so on, counted from 1");
  return *every;
}

int64_t tokens_of(const Json& config, const char* key, int64_t usual, const std::string& where) {
  const Json value = value_or_null(config, key);
  if (value.is_null()) return usual;
  if (!value.is_number_integer() || value < 1 || value > max_tokens)
    fail(ExitCode::data, where, ": ", key, " is ", value.dump(), ", expected a whole number from 1 to ", max_tokens);
  return value.get<int64_t>();
}

/// Returns a flag for each block: true if it has no rotary positions.
std::vector<bool> blocks_without_rotary(const Json& config, int64_t layers, const std::string& where) {
  const Json list = value_or_null(config, "no_rope_layers");
  std::vector<bool> marks;
  if (list.is_null() || (list.is_array() && list.empty())) {
    const int64_t every = tokens_of(config, "no_rope_layer_interval", usual_interval, where);
    for (int64_t l = 0; l < layers; ++l) marks.push_back(is_nth(l, every));
    return marks;
  }
  if (!list.is_array() || static_cast<int64_t>(list.size()) < layers)
    fail(ExitCode::data, where, ": no_rope_layers is ", list.dump().substr(0, 80), ", expected an array of at least ",
         layers, " entries");
  for (int64_t l = 0; l < layers; ++l) {
    const Json& entry = list[l];
    if (entry != 0 && entry != 1)
      fail(ExitCode::data, where, ": no_rope_layers[", l, "] is ", entry.dump(),
           ", expected 0 (no rotary positions) or 1");
    marks.push_back(entry == 0);
  }
  return marks;
}

/// Returns a flag for each block: true if it has full attention. Without layer_types, these are the blocks without
/// rotary positions.
std::vector<bool> marks_of_full_attention(const Json& config, const std::vector<bool>& without_rotary,
                                          const std::string& where) {
  const Json types = value_or_null(config, "layer_types");
  if (types.is_null()) return without_rotary;
  if (!types.is_array() || types.size() != without_rotary.size())
    fail(ExitCode::data, where, ": layer_types is ", types.dump().substr(0, 80), ", expected an array of ",
         without_rotary.size(), " entries");
  std::vector<bool> marks;
  for (const Json& type : types) {
    if (type != unchunked && type != chunked)
      fail(ExitCode::data, where, ": layer_types has ", type.dump().substr(0, 80), ", expected ", unchunked, " or ",
           chunked);
    marks.push_back(type == unchunked);
  }
  return marks;
}

bool is_on(const Json& config, const char* key, const std::string& where) {
  const auto found = config.find(key);
  if (found == config.end()) return true;
  if (found->is_boolean()) return found->get<bool>();
  // The first published configurations have a number instead of a boolean.
  if (found->is_number()) return *found != 0;
  fail(ExitCode::data, where, ": ", key, " is ", found->dump(), ", expected true or false");
}

}  // namespace

std::vector<std::string_view> llama4_config_keys() {
  return {"no_rope_layers",       "no_rope_layer_interval",
          "attention_chunk_size", "attn_temperature_tuning",
          "floor_scale",          "attn_scale",
          "use_qk_norm"};
}

void read_llama4(const Json& config, ModelKeys& keys, const std::string& where) {
  const int64_t layers = keys.integer("model.layers");
  const std::vector<bool> without = blocks_without_rotary(config, layers, where);
  const int64_t every = period_of_marks(without, "no_rope_layers", where);
  if (every == 1)
    fail(ExitCode::data, where,
         ": no_rope_layers is 0 for all blocks, so no block has rotary positions, which is not supported; expected 1 "
         "(rotary positions) for at least one block");
  keys.set("model.no_rotary_every", every, where);

  const std::vector<bool> whole = marks_of_full_attention(config, without, where);
  const int64_t full_every = period_of_marks(whole, "layer_types", where);
  const bool chunks = full_every != 1;
  const auto size = config.find("attention_chunk_size");
  if (chunks && size != config.end() && size->is_null())
    fail(ExitCode::data, where,
         ": attention_chunk_size is null, expected a number of tokens, because some blocks have ", chunked);
  keys.set("model.attention_chunk", nullptr, where);
  if (chunks) keys.set("model.attention_chunk", tokens_of(config, "attention_chunk_size", usual_chunk, where), where);
  keys.set("model.full_attention_every", chunks ? full_every : 0, where);

  const Json scale = value_or_null(config, "attn_scale");
  const bool tuned = every > 0 && is_on(config, "attn_temperature_tuning", where);
  keys.set("model.temperature.scale", 0, where);
  if (tuned)
    keys.set("model.temperature.scale", scale.is_null() ? Json(usual_scale) : scale, cat(where, ": attn_scale"));
  keys.set("model.temperature.floor", tokens_of(config, "floor_scale", usual_floor, where), where);
  const bool normed = is_on(config, "use_qk_norm", where);
  keys.set("model.qk_norm", normed ? "unit" : "none", where);
  // The reference implementation normalises after the rotation. The normalisation removes the magnitude of YaRN.
  if (normed && keys.real("model.yarn.factor") != 1) keys.set("model.yarn.mscale", 0, where);
}

void write_llama4(OrderedJson& config, const ModelKeys& keys) {
  const Json& chunk = keys["model.attention_chunk"];
  const int64_t every = keys.integer("model.no_rotary_every"), full_every = keys.integer("model.full_attention_every");
  OrderedJson rotary = OrderedJson::array(), types = OrderedJson::array();
  for (int64_t l = 0; l < keys.integer("model.layers"); ++l) {
    rotary.push_back(is_nth(l, every) ? 0 : 1);
    types.push_back(chunk.is_null() || is_nth(l, full_every) ? unchunked : chunked);
  }
  config["no_rope_layers"] = std::move(rotary);
  config["layer_types"] = std::move(types);
  // transformers requires a size even if no block has chunks.
  config["attention_chunk_size"] = chunk.is_null() ? usual_chunk : chunk.get<int64_t>();
  const double scale = keys.real("model.temperature.scale");
  config["attn_temperature_tuning"] = scale > 0;
  config["attn_scale"] = scale > 0 ? scale : usual_scale;
  config["floor_scale"] = keys.integer("model.temperature.floor");
  config["use_qk_norm"] = keys.text("model.qk_norm") == "unit";
}

}  // namespace hexad::interop
