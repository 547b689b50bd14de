#include "tools/interop/config_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "framework/config/words.h"
#include "tools/interop/config_sections.h"
#include "tools/interop/llama4_keys.h"
#include "tools/interop/rotary_keys.h"
#include "tools/interop/size_checks.h"
#include "tools/interop/tensor_map.h"
#include "tools/interop/window_keys.h"

namespace hexad::interop {

using namespace base;

namespace {

// Upper limits of sizes. With these limits, products of sizes fit into 63 bits, and a damaged config.json cannot
// exhaust the memory before a tensor is read.
constexpr int64_t max_count = 10'000, largest_width = int64_t{1} << 24, longest_context = int64_t{1} << 32;

int64_t limit_of(std::string_view recipe_key) {
  constexpr std::string_view counts[] = {"model.layers",
                                         "model.heads",
                                         "model.kv_heads",
                                         "model.head_size",
                                         "model.prediction_blocks",
                                         "model.delta_net.heads",
                                         "model.delta_net.key_heads",
                                         "model.moe.experts",
                                         "model.moe.shared_experts"};
  if (recipe_key == "model.context") return longest_context;
  return std::ranges::find(counts, recipe_key) == std::end(counts) ? largest_width : max_count;
}

/// Returns all names of a config key. `alternatives` separates the names by '|'. A new config has the first name.
std::vector<std::string> names_of(std::string_view alternatives) {
  std::vector<std::string> names;
  while (!alternatives.empty()) {
    const size_t bar = std::min(alternatives.find('|'), alternatives.size());
    names.emplace_back(alternatives.substr(0, bar));
    alternatives.remove_prefix(std::min(bar + 1, alternatives.size()));
  }
  return names;
}

/// Returns the value of a key and the name under which it was found; null and an empty name if the key is missing. A
/// null counts as missing if the conversion is not norm_order. Throws Error(data) if two names have different values.
std::pair<Json, std::string> value_of(const Json& config, const ConfigKey& key, const std::string& where) {
  Json value;
  std::string name;
  for (const std::string& candidate : names_of(key.config)) {
    const auto found = config.find(candidate);
    if (found == config.end() || (found->is_null() && key.conversion != Conversion::norm_order)) continue;
    if (!name.empty() && *found != value)
      fail(ExitCode::data, where, ": ", candidate, " is ", found->dump(), ", but ", name, " is ", value.dump(),
           ", expected equal values");
    value = *found, name = candidate;
  }
  return {value, name};
}

/// Returns the recipe's value for a value of the config.
Json to_recipe(const Json& value, Conversion conversion, const ModelKeys& keys, const std::string& where) {
  switch (conversion) {
    case Conversion::same:
    case Conversion::zero_if_null:
      return value;
    case Conversion::group_rule:
      if (value == "group_limited_greedy")
        return keys.integer("model.moe.top_groups") < keys.integer("model.moe.groups") ? "best" : "best_two";
      if (value != "greedy")
        fail(ExitCode::data, where, " is ", value.dump(), ", expected greedy or group_limited_greedy");
      if (keys.integer("model.moe.groups") != 1)
        fail(ExitCode::data, where, " is ", value.dump(), ", expected group_limited_greedy, because n_group is ",
             keys.integer("model.moe.groups"));
      return "best_two";
    case Conversion::norm_order:
      if (!value.is_null() && value != 1)
        fail(ExitCode::data, where, " is ", value.dump(),
             ", expected 1 (weights are divided by their sum) or null (they are not)");
      return !value.is_null();
    case Conversion::head_norm:
      if (!value.is_boolean()) fail(ExitCode::data, where, " is ", value.dump(), ", expected true or false");
      return value.get<bool>() ? "head" : "none";
    case Conversion::head_share:
      if (!value.is_number_integer()) fail(ExitCode::data, where, " is ", value.dump(), ", expected a whole number");
      return value.get<double>() / keys["model.head_size"].get<double>();
    case Conversion::gelu_name:
      if (value == "gelu_new" || value == "gelu_pytorch_tanh") return "tanh";
      if (value == "gelu") return "exact";
      fail(ExitCode::data, where, " is ", value.dump(), ", expected gelu_new, gelu_pytorch_tanh or gelu");
  }
  fail_invariant(
      cat("[interop] the conversion of ", where, " is ", static_cast<int>(conversion), "; expected a Conversion"));
}

OrderedJson to_config(const ModelKeys& keys, const ConfigKey& key, const OrderedJson& before) {
  const Json& value = keys[key.recipe];
  switch (key.conversion) {
    case Conversion::same:
      break;
    case Conversion::zero_if_null:
      if (value == 0) return nullptr;
      break;
    case Conversion::group_rule:
      return keys.integer("model.moe.groups") > 1 ? "group_limited_greedy" : "greedy";
    case Conversion::norm_order:
      return value == true ? OrderedJson(1.0) : OrderedJson();
    case Conversion::head_norm:
      return value == "head";
    case Conversion::head_share:
      return std::llround(value.get<double>() * keys.real("model.head_size"));
    case Conversion::gelu_name:
      if (value == "exact") return "gelu";
      return before == "gelu_pytorch_tanh" ? "gelu_pytorch_tanh" : "gelu_new";
  }
  return OrderedJson::parse(value.dump());
}

/// Rejects null for a flag whose default is true, because the reference implementation reads null as false.
void require_not_null(const Json& config, const std::string& name, std::string_view usual, std::string_view expected,
                      const std::string& where) {
  const auto found = usual == "true" ? config.find(name) : config.end();
  if (found != config.end() && found->is_null())
    fail(ExitCode::data, where, ": ", name, " is null, which the reference implementation takes as false, expected ",
         expected);
}

void read_keys(const Json& config, const Family& family, ModelKeys& keys, const std::string& where) {
  for (const auto& table : family.keys) {
    for (const ConfigKey& key : table) {
      for (const std::string& candidate : names_of(key.config))
        require_not_null(config, candidate, key.usual, "true or false", where);
      const auto [found, name] = value_of(config, key, where);
      Json value = found;
      if (name.empty()) {
        if (key.usual.empty())
          fail(ExitCode::data, where, ": ", names_of(key.config).front(), " is missing, expected a value");
        value = Json::parse(key.usual);
        if (value.is_null() && key.conversion == Conversion::same) keys.set(key.recipe, nullptr, where);
        if (value.is_null()) continue;
      }
      const std::string at = cat(where, ": ", name.empty() ? names_of(key.config).front() : name);
      if (key.conversion == Conversion::head_share) keys.resolve();
      Json converted = to_recipe(value, key.conversion, keys, at);
      const int64_t limit = limit_of(key.recipe);
      const bool in_range = converted.is_number_integer() && converted >= 0 && converted <= limit;
      const bool counts = ModelKeys::is_integer(key.recipe) && !converted.is_null();
      if (!in_range && (counts || converted.is_number_integer()))
        fail(ExitCode::data, at, " is ", converted.dump(), ", expected a whole number from 0 to ", limit);
      keys.set(key.recipe, std::move(converted), at);
    }
  }
}

void require_fixed(const Json& config, const Family& family, const std::string& where) {
  for (const auto* keys : {&family.fixed, &family.tolerated}) {
    for (const FixedKey& key : *keys) {
      require_not_null(config, std::string(key.config), key.value, "true", where);
      const auto found = config.find(std::string(key.config));
      const Json expected = Json::parse(key.value);
      if (found == config.end() || found->is_null() || *found == expected) continue;
      fail(ExitCode::data, where, ": ", key.config, " is ", found->dump(), ", expected ", expected.dump());
    }
  }
  const bool any_type = family.windows || family.llama4 || family.delta_nets;  // if true, layer_types is read later
  if (const auto types = config.find("layer_types"); !any_type && types != config.end() && !types->is_null()) {
    const bool full =
        types->is_array() && std::ranges::all_of(*types, [](const Json& t) { return t == "full_attention"; });
    if (!full)
      fail(ExitCode::data, where, ": layer_types is ", types->dump().substr(0, 80),
           ", expected full_attention for every layer");
  }
}

// Checks the quantization settings of a family whose experts may be in MXFP4.
void require_mxfp4(const Json& config, const std::string& where) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || found->is_null()) return;
  const auto method = found->is_object() ? found->find("quant_method") : found->end();
  if (!found->is_object() || method == found->end() || *method != "mxfp4")
    fail(ExitCode::data, where, ": quantization_config is ", found->dump().substr(0, 80),
         ", expected an object with quant_method mxfp4");
}

// Rejects blocks without full attention. In attn_type_list, 1 means full attention.
void require_full_attention(const Json& config, const std::string& where) {
  const auto types = config.find("attn_type_list");
  if (types == config.end() || types->is_null()) return;
  if (!types->is_array() || !std::ranges::all_of(*types, [](const Json& t) { return t == 1; }))
    fail(ExitCode::data, where, ": attn_type_list is ", types->dump().substr(0, 80),
         ", expected a list of 1 (full attention)");
}

/// Returns the number of prediction blocks and the config key that gives this number. Prediction blocks follow the last
/// layer and predict tokens after the next token. Returns 0 and an empty key if no key gives a number above 0.
std::pair<int64_t, std::string> count_prediction_blocks(const Json& config, const std::string& where) {
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    if (!found->is_number_integer() || *found < 0 || *found > max_count)
      fail(ExitCode::data, where, ": ", key, " is ", found->dump(), ", expected a whole number from 0 to ", max_count);
    if (*found > 0) return {found->get<int64_t>(), key};
  }
  return {};
}

std::set<std::string, std::less<>> keys_understood(const Family& family) {
  std::set<std::string, std::less<>> known{"layer_types", "quantization_config"};
  for (const std::string_view key : neutral_keys()) known.emplace(key);
  for (const std::string_view key : family.neutral) known.emplace(key);
  for (const std::string_view key : family.training) known.emplace(key);
  for (const std::string_view key : keys_of(family.pattern)) known.emplace(key);
  for (const std::string_view key : rotary_config_keys()) known.emplace(key);
  if (!family.theta_key.empty()) known.emplace(family.theta_key);
  if (family.llama4)
    for (const std::string_view key : llama4_config_keys()) known.emplace(key);
  for (const FixedKey& key : family.fixed) known.emplace(key.config);
  for (const FixedKey& key : family.tolerated) known.emplace(key.config);
  for (const auto& table : family.keys)
    for (const ConfigKey& key : table)
      for (std::string& name : names_of(key.config)) known.insert(std::move(name));
  return known;
}

/// Rejects unknown keys, because they may change the model. Also rejects keys of fixed_keys() with unsupported values.
/// Accepts every key whose value is null. require_not_null() rejects null where it would change the model.
void require_known(const Json& config, const Family& family, const std::string& where) {
  const auto known = keys_understood(family);
  const std::span<const std::string_view> neutral = neutral_keys();
  const std::span<const FixedKey> fixed = fixed_keys();
  for (const auto& [key, value] : config.items()) {
    const std::string_view name = key_in_section(key, family);
    if (value.is_null() || known.contains(key) || std::ranges::find(neutral, name) != neutral.end()) continue;
    const auto same = std::ranges::find(fixed, name, &FixedKey::config);
    if (same == fixed.end())
      fail(ExitCode::data, where, ": ", config::shown(key), " (", value.dump().substr(0, 60), ") is not known for ",
           family.model_type, " and may change the model; if this key does not, remove it from config.json");
    if (value != Json::parse(same->value))
      fail(ExitCode::data, where, ": ", config::shown(key), " is ", value.dump().substr(0, 60), ", expected ",
           same->value);
  }
}

/// True if weights are stored in fp8 with a scale for each block of 128 x 128 elements. Rejects other quantized
/// weights.
bool has_fp8_blocks(const Json& config, const std::string& where) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || found->is_null()) return false;
  const Json size = found->is_object() ? found->value("weight_block_size", Json()) : Json();
  const Json format = found->is_object() ? found->value("fmt", Json("e4m3")) : Json();
  const bool fp8 = found->is_object() && found->value("quant_method", Json()) == "fp8" &&
                   (format == "e4m3" || format == "float8_e4m3fn") && size == Json::array({128, 128});
  if (!fp8)
    fail(ExitCode::data, where, ": quantization_config is ", found->dump().substr(0, 120),
         ", expected quant_method fp8, fmt e4m3 or float8_e4m3fn, and weight_block_size [128, 128]");
  return true;
}

bool same_blocks(const ModelKeys& a, const ModelKeys& b) {
  bool same = a.integer("model.layers") == b.integer("model.layers");
  const int64_t blocks = std::max(a.blocks(), b.blocks());
  for (int64_t l = 0; same && l < blocks; ++l) same = a.is_moe(l) == b.is_moe(l);
  return same;
}

bool same_windows(const ModelKeys& a, const ModelKeys& b) {
  return a["model.layers"] == b["model.layers"] && a["model.window"].is_null() == b["model.window"].is_null() &&
         a["model.full_attention_every"] == b["model.full_attention_every"];
}

bool same_rotary(const ModelKeys& a, const ModelKeys& b) {
  const std::vector<std::string> changes = ModelKeys::differences(a, b);
  return std::ranges::none_of(changes, [](const std::string& change) {
    return change.starts_with("model.rotary") || change.starts_with("model.yarn");
  });
}

std::vector<std::string> training_notes(const Json& config, const Family& family) {
  std::vector<std::string> notes;
  for (const std::string_view key : family.training) {
    const auto found = config.find(std::string(key));
    if (found == config.end() || found->is_null() || *found == 0 || *found == false) continue;
    notes.push_back(cat(key, " (", found->dump(), ") is not imported"));
  }
  return notes;
}

/// Text of a config.json. `lost` is the first key of the model that the text does not express; empty if there is none.
struct Written {
  std::string text, lost;
};

std::string config_of(const Family& family) { return cat("a config.json of ", family.model_type); }

Written written_config(const Family& family, const ModelKeys& model, const std::string& like, std::string_view dtype) {
  const std::string where = config_of(family);
  const ModelKeys keys = without_ntk(model, Sizes(model, family, ExpertLayout::separate).rotary());
  OrderedJson config = OrderedJson::object();
  ModelKeys before;
  if (!like.empty()) {
    config = without_sections(OrderedJson::parse(like), family, where);
    before = read_config(like, where).keys;
  } else {
    config["architectures"] = {family.architecture};
    config["model_type"] = family.model_type;
  }
  const auto set_dtype = [&] {
    if (dtype.empty()) return;
    if (config.contains("dtype")) config["dtype"] = dtype;
    if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = dtype;
  };
  const bool loses_original =
      !like.empty() && before["model.context"] != keys["model.context"] && implies_original_context(config, before);
  const bool same_model = !like.empty() && !loses_original && ModelKeys::differences(before, keys).empty();
  if (!same_model) {
    for (const FixedKey& key : family.fixed)
      if (like.empty()) config[std::string(key.config)] = OrderedJson::parse(key.value);
    if (like.empty() || !same_blocks(before, keys)) write_pattern(config, family.pattern, keys);
    if (like.empty() || loses_original || !same_rotary(before, keys)) write_rotary(config, family, keys);
    if (family.llama4) write_llama4(config, keys);
    if (family.windows && (like.empty() || !same_windows(before, keys))) write_windows(config, keys);
    if (family.delta_nets && (like.empty() || !same_windows(before, keys))) write_delta_nets(config, keys);
  }
  bool changed = config.erase("quantization_config") > 0 || !same_model;  // exported weights are not quantized
  for (const auto& table : family.keys) {
    for (const ConfigKey& key : table) {
      const std::vector<std::string> names = names_of(key.config);
      const auto present = std::ranges::find_if(names, [&](const std::string& n) { return config.contains(n); });
      if (!like.empty() && before[key.recipe] == keys[key.recipe]) continue;
      if (key.conversion == Conversion::head_share && present == names.end()) continue;
      if (present == names.end()) config[names.front()] = OrderedJson();
      for (const std::string& name : names)
        if (config.contains(name)) config[name] = to_config(keys, key, config[name]);
      changed = true;
    }
  }
  const OrderedJson unchanged = config;
  set_dtype();
  if (!changed && config == unchanged) return {like, ""};
  std::string text = with_sections(config, family).dump(2) + "\n";
  const ModelKeys written = read_config(text, where).keys;
  const std::vector<std::string> lost = ModelKeys::differences(keys, written);
  return {std::move(text), lost.empty() ? "" : lost.front()};
}

// Returns the end of a message that names the families, other than `refused`, whose new config.json expresses the
// model; empty if there are none.
std::string other_families(const ModelKeys& model, const Family& refused) {
  std::string names;
  for (const Family& family : families()) {
    if (&family == &refused) continue;
    try {
      if (written_config(family, model, "", "").lost.empty())
        names += cat(names.empty() ? "" : ", ", family.model_type);
    } catch (const std::exception&) {
      continue;  // the family has no values for some of the keys
    }
  }
  return names.empty() ? "" : cat("; `hexad export --family X` writes another family: ", names);
}

}  // namespace

ForeignConfig read_config(std::string_view text, const std::string& where) {
  const Json stored = io::parse_json(text, where);
  const io::JsonNode root(stored, where);
  root.check(stored.is_object(), "an object");
  const Family& family = find_family(root["model_type"].text(), where);
  const Json config = without_sections(stored, family, where);
  require_known(config, family, where);
  require_fixed(config, family, where);
  require_full_attention(config, where);
  if (family.mxfp4) require_mxfp4(config, where);
  const auto [blocks, blocks_key] = count_prediction_blocks(config, where);
  ForeignConfig read{&family, {}, "", blocks, blocks_key, training_notes(config, family)};
  read.fp8_blocks = !family.mxfp4 && has_fp8_blocks(config, where);
  for (const Constant& constant : family.constants) read.keys.set(constant.recipe, Json::parse(constant.value), where);
  if (family.pattern == LayerPattern::none) read.keys.set("model.moe.aux_loss.coefficient", 0, where);
  read_keys(config, family, read.keys, where);
  require_sizes(read.keys, family, where);
  const Json stated = read.keys["model.rotary_share"];
  read_rotary(config, family, read.keys, where);
  const int64_t original = read.keys.integer("model.rotary_scaling.original_context");
  if (read.keys.text("model.rotary_scaling.kind") == "longrope" && read.keys.integer("model.context") > original)
    read.notes.push_back(cat("long_factor applies to texts of any length, because model.context is above ", original,
                             "; set model.context to at most ", original, " for short_factor"));
  if (family.mrope && has_image_positions(config))
    read.notes.emplace_back("mrope_section is kept for an export; it has no effect on text");
  if (has_dynamic_rotary(config))
    read.notes.push_back(cat("rope_type dynamic is imported as no scaling, which is the same up to ",
                             read.keys.integer("model.context"), " tokens (max_position_embeddings)"));
  // A family with rotary_dim may also have partial_rotary_factor. Both keys must then give the same rotary share of a
  // head.
  if (const auto found = config.find("rotary_dim"); found != config.end() && !found->is_null()) {
    const Json share = read.keys["model.rotary_share"];
    if (share != family.rotary_share && share != stated)
      fail(ExitCode::data, where, ": rotary_dim is ", found->dump(), ", but partial_rotary_factor is ", share.dump(),
           ", expected partial_rotary_factor to equal rotary_dim divided by the size of a head");
    read.keys.set("model.rotary_share", stated, where);
  }
  read_pattern(config, family.pattern, read.keys, where);
  if (family.windows) read_windows(config, read.keys, where);
  if (family.llama4) read_llama4(config, read.keys, where);
  if (family.delta_nets) read_delta_nets(config, read.keys, where);
  read.keys.resolve();
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto found = config.find(key); found != config.end() && found->is_string()) read.dtype = *found;
  return read;
}

std::string write_config(const Family& family, const ModelKeys& model, const std::string& like,
                         std::string_view dtype) {
  std::string problem;
  try {
    Written written = written_config(family, model, like, dtype);
    if (written.lost.empty()) return std::move(written.text);
    problem = cat(config_of(family), " cannot express the model: ", written.lost);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    problem = error.what();
  }
  fail(ExitCode::data, problem, other_families(model, family));
}

}  // namespace hexad::interop
