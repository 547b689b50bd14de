#include "tools/interop/text_part.h"

#include <algorithm>
#include <array>
#include <span>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/io/json.h"
#include "tools/interop/family.h"
#include "tools/interop/layer_pattern.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr const char* section = "text_config";
// Keys that a larger model may state instead of its text model.
constexpr auto shared_keys =
    std::to_array({"dtype", "torch_dtype", "transformers_version", "tie_word_embeddings", "quantization_config"});

/// True for keys of the larger model that need no check: text_config itself, keys that are copied into the text model
/// (shared_keys), and keys without effect on the text model.
bool is_of_other_parts(std::string_view key) {
  const std::span<const std::string_view> neutral = neutral_keys();
  return key == section || key == "vision_config" || key.ends_with("_token_id") || key.ends_with("_token_index") ||
         std::ranges::find(neutral, key) != neutral.end() || std::ranges::find(shared_keys, key) != shared_keys.end();
}

void require_known(const OrderedJson& config, const Family& family, const std::string& where) {
  const std::span<const FixedKey> fixed = fixed_keys();
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || is_of_other_parts(key)) continue;
    const auto same = std::ranges::find(fixed, key, &FixedKey::config);
    if (same != fixed.end() && value == OrderedJson::parse(same->value)) continue;
    fail(ExitCode::data, where, ": ", config::shown(key), " (", value.dump().substr(0, 60), ") is not known for ",
         family.larger, " and may change the model; if this key does not, remove it from config.json");
  }
}

bool states(const OrderedJson& text, const char* key) {
  const auto found = text.find(key);
  return found != text.end() && !found->is_null();
}

/// Copies a key of the larger model to the text model if the text model lacks it. Throws Error(data) if both models
/// have the key with different values, except for dtypes and transformers_version.
void move_key(OrderedJson& text, const OrderedJson& config, std::string_view key, const std::string& where) {
  const std::string name(key);
  if (!states(config, name.c_str())) return;
  const bool is_dtype = key.ends_with("dtype");
  if (is_dtype && (states(text, "dtype") || states(text, "torch_dtype"))) return;
  if (!states(text, name.c_str()))
    text[name] = config[name];
  else if (key != "transformers_version" && text[name] != config[name])
    fail(ExitCode::data, where, ": ", key, " is ", config[name].dump().substr(0, 80), ", but ", section, ".", key,
         " is ", text[name].dump().substr(0, 80), ", expected equal values");
}

}  // namespace

std::string text_part(const std::string& config, const std::string& where) {
  const Json root = io::parse_json(config, where);  // reports errors with their position
  const auto type = root.is_object() ? root.find("model_type") : root.end();
  if (type == root.end() || !type->is_string()) return config;
  const auto family = std::ranges::find_if(families(), [&](const Family& f) {
    return !f.larger.empty() && f.larger == type->get_ref<const std::string&>();
  });
  if (family == families().end()) return config;

  const OrderedJson whole = OrderedJson::parse(config);
  const auto part = whole.find(section);
  if (part == whole.end() || !part->is_object())
    fail(ExitCode::data, where, ": ", section, " is ", part == whole.end() ? "missing" : part->dump().substr(0, 80),
         ", expected an object with the keys of a ", family->model_type, " model");
  if (const OrderedJson inner = part->value("model_type", OrderedJson()); inner != family->model_type)
    fail(ExitCode::data, where, ": ", section, ".model_type is ", inner.dump().substr(0, 80), ", expected ",
         family->model_type);
  require_known(whole, *family, where);
  OrderedJson text = OrderedJson::object();
  text["architectures"] = {family->architecture};
  for (const auto& [key, value] : part->items())
    if (key != "architectures") text[key] = value;
  for (const char* key : shared_keys) move_key(text, whole, key, where);
  return text.dump(2) + "\n";
}

}  // namespace hexad::interop
