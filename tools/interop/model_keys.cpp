#include "tools/interop/model_keys.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

namespace hexad::interop {

using namespace base;

namespace {

enum class Type : uint8_t { integer, real, flag, text, numbers };

/// A key with the recipe's default, as JSON. `null` means `auto` or `none`. If `computed` is false,
/// ModelKeys::meaning() omits the key: the key matters only in training, no config.json can express the key, or
/// meaning() contains the values derived from the key.
struct KnownKey {
  std::string_view path;
  Type type;
  std::string_view usual;
  bool computed = true;
};

constexpr KnownKey known_keys[] = {{"model.kind", Type::text, "\"decoder\""},
                                   {"model.layers", Type::integer, "4"},
                                   {"model.hidden", Type::integer, "256"},
                                   {"model.heads", Type::integer, "4"},
                                   {"model.kv_heads", Type::integer, "null"},
                                   {"model.head_size", Type::integer, "null"},
                                   {"model.context", Type::integer, "256", false},
                                   {"model.vocab", Type::integer, "0"},
                                   {"model.norm", Type::text, "\"rms_norm\""},
                                   {"model.norm_eps", Type::real, "1e-5"},
                                   {"model.position", Type::text, "\"rotary\""},
                                   {"model.rotary_theta", Type::real, "10000"},
                                   {"model.rotary_share", Type::real, "1"},
                                   {"model.rotary_scaling.kind", Type::text, "\"none\""},
                                   {"model.rotary_scaling.factor", Type::real, "1"},
                                   {"model.rotary_scaling.low_freq_factor", Type::real, "1"},
                                   {"model.rotary_scaling.high_freq_factor", Type::real, "4"},
                                   {"model.rotary_scaling.original_context", Type::integer, "8192"},
                                   {"model.rotary_scaling.short_factors", Type::numbers, "[]"},
                                   {"model.rotary_scaling.long_factors", Type::numbers, "[]"},
                                   {"model.rotary_scaling.short_magnitude", Type::real, "1"},
                                   {"model.rotary_scaling.long_magnitude", Type::real, "1"},
                                   {"model.attention", Type::text, "\"grouped\""},
                                   {"model.latent.q_rank", Type::integer, "0"},
                                   {"model.latent.kv_rank", Type::integer, "512"},
                                   {"model.latent.nope_size", Type::integer, "128"},
                                   {"model.latent.rope_size", Type::integer, "64"},
                                   {"model.latent.value_size", Type::integer, "128"},
                                   {"model.latent.norm_eps", Type::real, "1e-6"},
                                   {"model.attention_gate", Type::flag, "false"},
                                   {"model.delta_net.heads", Type::integer, "0"},
                                   {"model.delta_net.key_heads", Type::integer, "null"},
                                   {"model.delta_net.key_size", Type::integer, "128"},
                                   {"model.delta_net.value_size", Type::integer, "128"},
                                   {"model.delta_net.conv_size", Type::integer, "4"},
                                   {"model.delta_net.norm_eps", Type::real, "1e-6"},
                                   {"model.yarn.factor", Type::real, "1"},
                                   {"model.yarn.original_context", Type::integer, "4096"},
                                   {"model.yarn.beta_fast", Type::real, "32"},
                                   {"model.yarn.beta_slow", Type::real, "1"},
                                   {"model.yarn.mscale", Type::real, "1"},
                                   {"model.yarn.mscale_all_dim", Type::real, "0"},
                                   {"model.yarn.truncate", Type::flag, "true"},
                                   {"model.mlp", Type::text, "\"swiglu\""},
                                   {"model.mlp_hidden", Type::integer, "null"},
                                   {"model.gelu", Type::text, "\"exact\""},
                                   {"model.swiglu_limit", Type::real, "null"},
                                   {"model.bias", Type::flag, "false"},
                                   {"model.qkv_bias", Type::flag, "null"},
                                   {"model.o_bias", Type::flag, "null"},
                                   {"model.qk_norm", Type::text, "\"none\""},
                                   {"model.tied_embedding", Type::flag, "false"},
                                   {"model.head_bias", Type::flag, "false"},
                                   {"model.qkv_clip", Type::real, "null"},
                                   {"model.window", Type::integer, "null"},
                                   {"model.full_attention_every", Type::integer, "0"},
                                   {"model.attention_chunk", Type::integer, "null"},
                                   {"model.no_rotary_every", Type::integer, "0"},
                                   {"model.temperature.scale", Type::real, "0"},
                                   {"model.temperature.floor", Type::integer, "8192"},
                                   {"model.sinks", Type::flag, "false"},
                                   {"model.prediction_blocks", Type::integer, "0"},
                                   {"model.init_std", Type::real, "0.02", false},
                                   {"model.moe.experts", Type::integer, "0"},
                                   {"model.moe.top_k", Type::integer, "2"},
                                   {"model.moe.expert_hidden", Type::integer, "1024"},
                                   {"model.moe.expert", Type::text, "\"swiglu\""},
                                   {"model.moe.expert_bias", Type::flag, "null"},
                                   {"model.moe.shared_experts", Type::integer, "0", false},
                                   {"model.moe.shared_hidden", Type::integer, "null", false},
                                   {"model.moe.shared_gate", Type::flag, "false"},
                                   {"model.moe.dense_residual", Type::flag, "false"},
                                   {"model.moe.input", Type::text, "\"after_attention\""},
                                   {"model.moe.dense_layers", Type::integer, "0", false},
                                   {"model.moe.every", Type::integer, "1", false},
                                   {"model.moe.router", Type::text, "\"top_k\""},
                                   {"model.moe.score", Type::text, "\"softmax\""},
                                   {"model.moe.router_bias", Type::flag, "false"},
                                   {"model.moe.mixer_jitter", Type::real, "0.01"},
                                   {"model.moe.normalize", Type::flag, "true"},
                                   {"model.moe.normalize_floor", Type::real, "0"},
                                   {"model.moe.scale", Type::real, "1"},
                                   {"model.moe.weigh", Type::text, "\"output\""},
                                   {"model.moe.groups", Type::integer, "1"},
                                   {"model.moe.top_groups", Type::integer, "1"},
                                   {"model.moe.group_score", Type::text, "\"best_two\""},
                                   {"model.moe.selection_bias", Type::flag, "null"},
                                   {"model.moe.bias_rate", Type::real, "0", false},
                                   {"model.moe.capacity_factor", Type::real, "null", false},
                                   {"model.moe.routing", Type::text, "\"model\"", false},
                                   {"model.moe.aux_loss.coefficient", Type::real, "0.01", false}};

const KnownKey& known(std::string_view path) {
  const auto found = std::ranges::find(known_keys, path, &KnownKey::path);
  require(found != std::end(known_keys), "[interop] unknown key ", path, "; expected one of the ",
          std::size(known_keys), " known keys");
  return *found;
}

bool has_type(const Json& value, Type type) {
  switch (type) {
    case Type::integer:
      return value.is_number_integer();
    case Type::real:
      return value.is_number();
    case Type::flag:
      return value.is_boolean();
    case Type::text:
      return value.is_string();
    case Type::numbers:
      return value.is_array() && std::ranges::all_of(value, [](const Json& v) { return v.is_number(); });
  }
  return false;
}

std::string_view article_and_name(Type type) {
  switch (type) {
    case Type::integer:
      return "a whole number";
    case Type::real:
      return "a number";
    case Type::flag:
      return "true or false";
    case Type::text:
      return "a word";
    case Type::numbers:
      return "a list of numbers";
  }
  return "";
}

/// Returns the value of a recipe's text as JSON. Returns null for `auto` and `none` if the type is not text. Returns
/// nullopt if the text does not have the type.
std::optional<Json> parsed_value(const std::string& text, Type type) {
  if (type == Type::text) return Json(text);
  if (text == "auto" || text == "none") return Json();
  if (type == Type::flag) return text == "true" ? Json(true) : text == "false" ? Json(false) : std::optional<Json>{};
  const char* end = text.data() + text.size();
  if (type == Type::integer) {
    int64_t whole = 0;
    const auto [at, error] = std::from_chars(text.data(), end, whole);
    return error == std::errc() && at == end ? Json(whole) : std::optional<Json>{};
  }
  double number = 0;
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end ? Json(number) : std::optional<Json>{};
}

/// Returns the value of a recipe's key; nullopt if the value does not have the type.
std::optional<Json> parsed_value(const config::Node& node, Type type) {
  const bool is_list = node.kind == config::Node::Kind::list;
  if (type != Type::numbers) return is_list ? std::optional<Json>{} : parsed_value(node.text, type);
  Json all = Json::array();
  for (const config::Node& child : node.children) {
    std::optional<Json> number = parsed_value(child, Type::real);
    if (!number || !number->is_number()) return {};
    all.push_back(std::move(*number));
  }
  return is_list ? std::optional<Json>(std::move(all)) : std::optional<Json>{};
}

// Returns the text of a scalar in quotes, or the scalars of a list in brackets.
std::string shown(const config::Node& node) {
  if (node.kind != config::Node::Kind::list) return cat("'", node.text, "'");
  std::string items;
  for (const config::Node& child : node.children) items += cat(items.empty() ? "" : ", ", child.text);
  return cat("[", items, "]");
}

const config::Node* find(const config::Node& root, std::string_view path) {
  const config::Node* node = &root;
  while (node && !path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    node = node->kind == config::Node::Kind::map ? node->find(path.substr(0, dot)) : nullptr;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

}  // namespace

ModelKeys::ModelKeys() {
  for (const KnownKey& key : known_keys) values_.emplace(key.path, Json::parse(key.usual));
}

ModelKeys ModelKeys::from_recipe(const config::Document& recipe, const std::string& where) {
  ModelKeys keys;
  for (const KnownKey& key : known_keys) {
    const config::Node* node = find(recipe.root, key.path);
    if (!node || (node->kind != config::Node::Kind::scalar && node->kind != config::Node::Kind::list)) continue;
    std::optional<Json> value = parsed_value(*node, key.type);
    // Older recipes have true or false where newer recipes name the kind.
    if (key.path == "model.qk_norm" && (node->text == "true" || node->text == "false"))
      value = node->text == "true" ? "head" : "none";
    if (!value)
      fail(ExitCode::data, where, ": ", key.path, " is ", shown(*node), ", expected ", article_and_name(key.type));
    keys.values_.insert_or_assign(std::string(key.path), std::move(*value));
  }
  keys.resolve();
  return keys;
}

const Json& ModelKeys::operator[](std::string_view path) const {
  const auto found = values_.find(path);
  require(found != values_.end(), "[interop] unknown key ", path, "; expected one of the ", values_.size(),
          " keys of the model");
  return found->second;
}

int64_t ModelKeys::integer(std::string_view path) const { return (*this)[path].get<int64_t>(); }
double ModelKeys::real(std::string_view path) const { return (*this)[path].get<double>(); }
bool ModelKeys::flag(std::string_view path) const { return (*this)[path].get<bool>(); }
const std::string& ModelKeys::text(std::string_view path) const { return (*this)[path].get_ref<const std::string&>(); }

bool ModelKeys::is_integer(std::string_view path) { return known(path).type == Type::integer; }

void ModelKeys::set(std::string_view path, Json value, const std::string& where) {
  const KnownKey& key = known(path);
  if (!value.is_null() && !has_type(value, key.type))
    fail(ExitCode::data, where, " is ", value.dump(), ", expected ", article_and_name(key.type));
  values_.insert_or_assign(std::string(path), std::move(value));
}

void ModelKeys::resolve() {
  const auto usual = [&](std::string_view path, const Json& value) {
    Json& current = values_.find(path)->second;
    if (current.is_null()) current = value;
  };
  usual("model.kv_heads", (*this)["model.heads"]);
  if (text("model.attention") == "latent")
    usual("model.head_size", integer("model.latent.rope_size") + integer("model.latent.nope_size"));
  usual("model.head_size", integer("model.hidden") / std::max<int64_t>(1, integer("model.heads")));
  if (integer("model.delta_net.heads") > 0) usual("model.delta_net.key_heads", (*this)["model.delta_net.heads"]);
  usual("model.mlp_hidden", 4 * integer("model.hidden"));
  usual("model.qkv_bias", (*this)["model.bias"]);
  usual("model.o_bias", (*this)["model.bias"]);
  usual("model.moe.expert_bias", (*this)["model.bias"]);
  usual("model.moe.shared_hidden", (*this)["model.moe.expert_hidden"]);
  usual("model.moe.selection_bias", real("model.moe.bias_rate") > 0);
}

bool ModelKeys::is_moe(int64_t layer) const {
  const int64_t dense = integer("model.moe.dense_layers"), every = std::max<int64_t>(1, integer("model.moe.every"));
  return integer("model.moe.experts") > 0 && layer >= dense && (layer - dense) % every == every - 1;
}

bool ModelKeys::is_delta(int64_t layer) const {
  const int64_t every = integer("model.full_attention_every");
  const bool full = every > 0 && layer % every == every - 1;
  return integer("model.delta_net.heads") > 0 && layer < integer("model.layers") && !full;
}

int64_t ModelKeys::shared_width() const {
  return integer("model.moe.shared_experts") * integer("model.moe.shared_hidden");
}

// Returns the values that determine the function of the model. Omits keys that have no effect. Keeps the keys that
// disable other keys.
std::map<std::string, Json> ModelKeys::meaning() const {
  std::map<std::string, Json> values;
  for (const KnownKey& key : known_keys) {
    if (!key.computed) continue;
    Json value = (*this)[key.path];
    if (key.type == Type::real && !value.is_null()) value = value.get<double>();
    values.emplace(key.path, std::move(value));
  }
  const auto drop = [&](std::string_view prefix) {
    std::erase_if(values, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  };
  int64_t moe_blocks = 0;
  std::string of_layers, of_prediction;
  const int64_t layers = integer("model.layers");
  for (int64_t l = 0; l < blocks(); ++l)
    moe_blocks += is_moe(l), (l < layers ? of_layers : of_prediction) += is_moe(l) ? 'e' : 'd';
  values["blocks, dense or with experts"] = of_layers;
  values["prediction blocks, dense or with experts"] = of_prediction;
  values["width of the shared experts"] = shared_width();
  if (moe_blocks == 0) drop("model.moe."), drop("width of the shared experts");
  if (moe_blocks == blocks() && !flag("model.moe.dense_residual")) drop("model.mlp");
  if (text("model.mlp") != "gelu" && text("model.moe.expert") != "gelu") drop("model.gelu");
  if (text("model.position") != "rotary") drop("model.rotary"), drop("model.yarn");
  if (real("model.yarn.factor") == 1)
    for (const char* part : {"beta", "original", "mscale", "truncate"}) drop(cat("model.yarn.", part));
  if (text("model.attention") != "latent") drop("model.latent.");
  if (integer("model.moe.top_groups") >= integer("model.moe.groups")) drop("model.moe.group_score");
  const std::string& scaling = text("model.rotary_scaling.kind");
  for (const char* part : {"low", "high"})
    if (scaling != "llama3") drop(cat("model.rotary_scaling.", part));
  for (const char* part : {"short", "long"})
    if (scaling != "longrope") drop(cat("model.rotary_scaling.", part));
  if (scaling != "llama3" && scaling != "longrope") drop("model.rotary_scaling.original");
  if (scaling == "none") drop("model.rotary_scaling.factor");
  if (text("model.moe.router") != "sparse_mixer") drop("model.moe.mixer_jitter");
  if (shared_width() == 0) drop("model.moe.shared_gate");
  if (!flag("model.moe.normalize")) drop("model.moe.normalize_floor");
  const bool delta_nets = integer("model.delta_net.heads") > 0;
  if (!delta_nets)
    for (const char* part : {"key", "value", "conv", "norm"}) drop(cat("model.delta_net.", part));
  if ((*this)["model.window"].is_null() && (*this)["model.attention_chunk"].is_null() && !delta_nets)
    drop("model.full_attention_every");
  if (real("model.temperature.scale") == 0) drop("model.temperature.floor");
  return values;
}

std::vector<std::string> ModelKeys::differences(const ModelKeys& before, const ModelKeys& after) {
  std::vector<std::string> all;
  const std::map<std::string, Json> a = before.meaning(), b = after.meaning();
  for (const auto& [path, value] : a)
    if (const auto other = b.find(path); other != b.end() && other->second != value)
      all.push_back(cat(path, ": ", value.dump(), " -> ", other->second.dump()));
  return all;
}

std::string ModelKeys::yaml() const {
  std::string text;
  std::vector<std::string> open;  // sections that enclose the previous key
  for (const KnownKey& key : known_keys) {
    const Json& value = (*this)[key.path];
    const Json usual = Json::parse(key.usual);
    const bool size = key.type == Type::integer && key.path.find('.') == key.path.rfind('.') &&
                      key.path != "model.full_attention_every" && key.path != "model.no_rotary_every" &&
                      key.path != "model.prediction_blocks";
    const bool follows =
        (key.path == "model.qkv_bias" || key.path == "model.o_bias" || key.path == "model.moe.expert_bias") &&
        value == (*this)["model.bias"];
    const bool unbiased = key.path == "model.moe.selection_bias" && value == false;
    const bool unused = key.path == "model.moe.shared_hidden" && integer("model.moe.shared_experts") == 0;
    if (value.is_null() || follows || unbiased || unused || (value == usual && !size)) continue;
    std::vector<std::string> parts;
    for (std::string_view rest = key.path; !rest.empty();) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      parts.emplace_back(rest.substr(0, dot));
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    const std::string name = parts.back();
    parts.pop_back();
    size_t same = 0;
    while (same < std::min(open.size(), parts.size()) && open[same] == parts[same]) ++same;
    for (size_t i = same; i < parts.size(); ++i) text += cat(std::string(2 * i, ' '), parts[i], ":\n");
    const std::string shown = key.type == Type::text ? value.get<std::string>() : value.dump();
    text += cat(std::string(2 * parts.size(), ' '), name, ": ", shown, "\n");
    open = parts;
  }
  return text;
}

}  // namespace hexad::interop
