#include "tools/interop/rotary_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "layers/base/model_config.h"

namespace hexad::interop {

using namespace base;

namespace {

bool present(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// Keys that divide the positions of images among time, height and width. The three positions of a token of text are
// equal, so these keys have no effect on text.
constexpr const char *mrope_section = "mrope_section", *mrope_interleaved = "mrope_interleaved";

/// Checks the keys of image positions and removes them.
void remove_mrope(Json& all, const std::string& where) {
  if (present(all, mrope_section)) {
    const Json& sizes = all[mrope_section];
    const bool sections = sizes.is_array() && sizes.size() == 3 &&
                          std::ranges::all_of(sizes, [](const Json& n) { return n.is_number_integer() && n >= 0; });
    if (!sections)
      fail(ExitCode::data, where, ": rotary ", mrope_section, " is ", sizes.dump().substr(0, 80),
           ", expected three whole numbers of at least 0");
  }
  if (present(all, mrope_interleaved) && !all[mrope_interleaved].is_boolean())
    fail(ExitCode::data, where, ": rotary ", mrope_interleaved, " is ", all[mrope_interleaved].dump().substr(0, 80),
         ", expected true or false");
  all.erase(mrope_section), all.erase(mrope_interleaved);
}

/// Returns all rotary parameters as one object, from the form of Transformers 4 or 5.
Json parameters_of(const Json& config, const Family& family, const std::string& where) {
  Json all = Json::object();
  std::string from;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!present(config, key)) continue;
    if (!config[key].is_object())
      fail(ExitCode::data, where, ": ", key, " is ", config[key].dump(), ", expected an object");
    if (!from.empty() && config[key] != all)
      fail(ExitCode::data, where, ": ", key, " differs from ", from, ", expected only one of them, or equal values");
    all = config[key], from = key;
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (!present(config, key)) continue;
    if (present(all, key) && all[key] != config[key])
      fail(ExitCode::data, where, ": ", key, " is ", config[key].dump(), ", but ", from, ".", key, " is ",
           all[key].dump(), ", expected equal values");
    all[key] = config[key];
  }
  if (const std::string key(family.theta_key); !key.empty() && present(config, key.c_str())) {
    if (present(all, "rope_theta") && all["rope_theta"] != config[key])
      fail(ExitCode::data, where, ": ", key, " is ", config[key].dump(), ", but rope_theta is ",
           all["rope_theta"].dump(), ", expected equal values");
    all["rope_theta"] = config[key];
  }
  if (family.mrope) remove_mrope(all, where);
  return all;
}

double number(const Json& all, const char* key, double usual, const std::string& where) {
  if (!present(all, key)) return usual;
  if (!all[key].is_number())
    fail(ExitCode::data, where, ": rotary ", key, " is ", all[key].dump(), ", expected a number");
  return all[key].get<double>();
}

/// Returns a parameter like number(). Throws Error(data) if the parameter is missing, because rope_type requires it.
double required(const Json& all, const char* key, std::string_view kind, const std::string& where) {
  if (!present(all, key))
    fail(ExitCode::data, where, ": rotary ", key, " is missing, expected a number for rope_type '", kind, "'");
  return number(all, key, 0, where);
}

void require_only(const Json& all, std::vector<std::string_view> known, std::string_view kind,
                  const std::string& where) {
  known.insert(known.end(), {"rope_type", "type", "rope_theta", "partial_rotary_factor"});
  std::string names;
  for (const std::string_view name : known) names += cat(names.empty() ? "" : ", ", name);
  for (const auto& [key, value] : all.items())
    if (std::ranges::find(known, key) == known.end() && !value.is_null())
      fail(ExitCode::data, where, ": the rotary parameter ", key, " (", value.dump(),
           ") may change the model, and Hexad does not support it for rope_type '", kind,
           "'; supported parameters: ", names);
}

int64_t original_context(const Json& all, const Json& config, const ModelKeys& keys, const std::string& where) {
  const char* key = "original_max_position_embeddings";
  const double usual = number(config, key, static_cast<double>(keys.integer("model.context")), where);
  const double value = number(all, key, usual, where);
  if (!(value >= 1 && value <= 0x1p40))
    fail(ExitCode::data, where, ": ", key, " is ", value, ", expected a number from 1 to 2^40");
  return std::llround(value);
}

/// Reads mscale and mscale_all_dim of latent attention. A value of 0 counts as missing. Throws Error(data) if only one
/// of them is given, because implementations differ in this case.
void read_magnitudes(const Json& all, ModelKeys& keys, const std::string& where) {
  const double turned = number(all, "mscale", 0, where), whole = number(all, "mscale_all_dim", 0, where);
  if (turned == 0 && whole == 0) return;
  if (turned <= 0 || whole <= 0)
    fail(ExitCode::data, where, ": rotary mscale is ", turned, " and mscale_all_dim is ", whole,
         ", expected both above 0, or both missing");
  keys.set("model.yarn.mscale", turned, where);
  keys.set("model.yarn.mscale_all_dim", whole, where);
}

void read_yarn(const Json& all, const Json& config, ModelKeys& keys, const std::string& where) {
  std::vector<std::string_view> known{
      "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "truncate"};
  const bool latent = keys.text("model.attention") == "latent";
  if (latent) known.insert(known.end(), {"mscale", "mscale_all_dim"});
  require_only(all, known, "yarn", where);
  const double factor = required(all, "factor", "yarn", where);
  if (latent) read_magnitudes(all, keys, where);
  const layers::YarnConfig yarn{.factor = factor,
                                .mscale = keys.real("model.yarn.mscale"),
                                .mscale_all_dim = keys.real("model.yarn.mscale_all_dim")};
  const double attention = yarn.table_magnitude();
  if (std::abs(number(all, "attention_factor", attention, where) - attention) > 1e-9)
    fail(ExitCode::data, where, ": rotary attention_factor is ", all["attention_factor"].dump(), ", expected ",
         attention, ", the value that factor and mscale give");
  const auto truncate = all.find("truncate");
  if (truncate != all.end() && !truncate->is_boolean())
    fail(ExitCode::data, where, ": rotary truncate is ", truncate->dump(), ", expected true or false");
  keys.set("model.yarn.truncate", truncate == all.end() || truncate->get<bool>(), where);
  keys.set("model.yarn.factor", factor, where);
  keys.set("model.yarn.original_context", original_context(all, config, keys, where), where);
  keys.set("model.yarn.beta_fast", number(all, "beta_fast", 32, where), where);
  keys.set("model.yarn.beta_slow", number(all, "beta_slow", 1, where), where);
}

void read_llama3(const Json& all, const Json& config, ModelKeys& keys, const std::string& where) {
  require_only(all, {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}, "llama3",
               where);
  keys.set("model.rotary_scaling.kind", "llama3", where);
  keys.set("model.rotary_scaling.factor", required(all, "factor", "llama3", where), where);
  keys.set("model.rotary_scaling.low_freq_factor", required(all, "low_freq_factor", "llama3", where), where);
  keys.set("model.rotary_scaling.high_freq_factor", required(all, "high_freq_factor", "llama3", where), where);
  keys.set("model.rotary_scaling.original_context", original_context(all, config, keys, where), where);
}

/// Reads the parameters of LongRoPE in the form of Phi-3.5-MoE, which names the magnitudes.
void read_longrope(const Json& all, const Json& config, ModelKeys& keys, const std::string& where) {
  require_only(all,
               {"short_factor", "long_factor", "short_mscale", "long_mscale", "factor", "attention_factor",
                "original_max_position_embeddings"},
               "longrope", where);
  keys.set("model.rotary_scaling.kind", "longrope", where);
  for (const auto& [theirs, ours] : {std::pair{"short_factor", "model.rotary_scaling.short_factors"},
                                     {"long_factor", "model.rotary_scaling.long_factors"}}) {
    if (!present(all, theirs))
      fail(ExitCode::data, where, ": rotary ", theirs, " is missing, expected a list for rope_type 'longrope'");
    keys.set(ours, all[theirs], cat(where, ": rotary ", theirs));
  }
  keys.set("model.rotary_scaling.short_magnitude", required(all, "short_mscale", "longrope", where), where);
  keys.set("model.rotary_scaling.long_magnitude", required(all, "long_mscale", "longrope", where), where);
  keys.set("model.rotary_scaling.original_context", original_context(all, config, keys, where), where);
}

/// Returns the parameters in the form of Transformers 5, without rope_theta and partial_rotary_factor.
OrderedJson scaling_of(const ModelKeys& keys) {
  OrderedJson scaling;
  const std::string& kind = keys.text("model.rotary_scaling.kind");
  if (keys.real("model.yarn.factor") != 1) {
    scaling["rope_type"] = "yarn";
    scaling["factor"] = keys.real("model.yarn.factor");
    scaling["original_max_position_embeddings"] = keys.integer("model.yarn.original_context");
    scaling["beta_fast"] = keys.real("model.yarn.beta_fast");
    scaling["beta_slow"] = keys.real("model.yarn.beta_slow");
    if (keys.real("model.yarn.mscale_all_dim") != 0) {
      scaling["mscale"] = keys.real("model.yarn.mscale");
      scaling["mscale_all_dim"] = keys.real("model.yarn.mscale_all_dim");
    }
    if (!keys.flag("model.yarn.truncate")) scaling["truncate"] = false;
  } else if (kind == "linear") {
    scaling["rope_type"] = "linear";
    scaling["factor"] = keys.real("model.rotary_scaling.factor");
  } else if (kind == "llama3") {
    scaling["rope_type"] = "llama3";
    scaling["factor"] = keys.real("model.rotary_scaling.factor");
    scaling["low_freq_factor"] = keys.real("model.rotary_scaling.low_freq_factor");
    scaling["high_freq_factor"] = keys.real("model.rotary_scaling.high_freq_factor");
    scaling["original_max_position_embeddings"] = keys.integer("model.rotary_scaling.original_context");
  } else if (kind == "longrope") {
    const auto copy = [&](const char* theirs, std::string_view ours) {
      scaling[theirs] = OrderedJson::parse(keys[cat("model.rotary_scaling.", ours)].dump());
    };
    scaling["rope_type"] = "longrope";
    copy("short_factor", "short_factors"), copy("long_factor", "long_factors");
    copy("short_mscale", "short_magnitude"), copy("long_mscale", "long_magnitude");
    copy("original_max_position_embeddings", "original_context");
  }
  return scaling;
}

}  // namespace

std::vector<std::string_view> rotary_config_keys() {
  return {"rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings"};
}

void read_rotary(const Json& config, const Family& family, ModelKeys& keys, const std::string& where) {
  if (family.rotary_theta == 0) {
    for (const std::string_view key : rotary_config_keys())
      if (present(config, std::string(key).c_str()))
        fail(ExitCode::data, where, ": ", key, " is ", config[std::string(key)].dump(), ", but ", family.model_type,
             " has no rotary positions; remove this key");
    return;
  }
  const Json all = parameters_of(config, family, where);
  if (family.scaled_rotary && !present(all, "rope_type") && !present(all, "type"))
    fail(
        ExitCode::data, where,
        ": rope_parameters.rope_type is missing, expected default, linear, dynamic, yarn, llama3 or longrope, because ",
        family.model_type, " has no default");
  keys.set("model.rotary_theta", number(all, "rope_theta", family.rotary_theta, where), where);
  const double share = number(all, "partial_rotary_factor", family.rotary_share, where);
  if (!(share > 0 && share <= 1))
    fail(ExitCode::data, where, ": partial_rotary_factor is ", share, ", expected a number above 0 and at most 1");
  if (share != 1 && !family.partial_rotary)
    fail(ExitCode::data, where, ": partial_rotary_factor is ", share,
         ", expected 1, because all dimensions of a head of ", family.model_type, " rotate");
  keys.set("model.rotary_share", share, where);
  const char* key = present(all, "rope_type") ? "rope_type" : "type";
  const Json kind = present(all, key) ? all[key] : Json("default");
  if (kind == "default" || kind == "linear" || kind == "dynamic") {
    const bool has_factor = kind != "default";
    require_only(all, has_factor ? std::vector<std::string_view>{"factor"} : std::vector<std::string_view>{},
                 kind.get<std::string>(), where);
    if (kind != "linear") return;  // dynamic: scaling begins beyond max_position_embeddings
    keys.set("model.rotary_scaling.kind", "linear", where);
    keys.set("model.rotary_scaling.factor", required(all, "factor", "linear", where), where);
  } else if (kind == "yarn") {
    read_yarn(all, config, keys, where);
  } else if (kind == "llama3") {
    read_llama3(all, config, keys, where);
  } else if (kind == "longrope") {
    if (!family.longrope)
      fail(ExitCode::data, where,
           ": rope_type is \"longrope\", expected default, linear, dynamic, yarn or llama3, because ",
           family.model_type, " does not read short_mscale and long_mscale, the magnitudes that Hexad supports");
    read_longrope(all, config, keys, where);
  } else {
    fail(ExitCode::data, where, ": rope_type is ", kind.dump(),
         ", expected one of default, linear, dynamic, yarn, llama3, longrope");
  }
}

bool has_image_positions(const Json& config) {
  return std::ranges::any_of(std::to_array({"rope_parameters", "rope_scaling"}), [&](const char* section) {
    return present(config, section) && config[section].is_object() && config[section].contains(mrope_section);
  });
}

bool has_dynamic_rotary(const Json& config) {
  return std::ranges::any_of(std::to_array({"rope_parameters", "rope_scaling"}), [&](const char* section) {
    if (!present(config, section) || !config[section].is_object()) return false;
    const Json& all = config[section];
    return all.value(present(all, "rope_type") ? "rope_type" : "type", Json()) == "dynamic";
  });
}

bool implies_original_context(const OrderedJson& config, const ModelKeys& keys) {
  const std::string& kind = keys.text("model.rotary_scaling.kind");
  if (keys.real("model.yarn.factor") == 1 && kind != "llama3" && kind != "longrope") return false;
  const auto states_it = [](const OrderedJson& object) {
    const auto found = object.is_object() ? object.find("original_max_position_embeddings") : object.end();
    return found != object.end() && !found->is_null();
  };
  return !states_it(config) &&
         std::ranges::none_of(std::to_array({"rope_parameters", "rope_scaling"}), [&](const char* section) {
           const auto found = config.find(section);
           return found != config.end() && states_it(*found);
         });
}

ModelKeys without_ntk(ModelKeys keys, int64_t rotary) {
  if (keys.text("model.rotary_scaling.kind") != "ntk") return keys;
  const std::string where = "the recipe: model.rotary_theta";
  // With two dimensions, the only frequency is 1 for any theta.
  if (rotary > 2) {
    const auto size = static_cast<double>(rotary);
    const double factor = keys.real("model.rotary_scaling.factor");
    keys.set("model.rotary_theta", keys.real("model.rotary_theta") * std::pow(factor, size / (size - 2)), where);
  }
  keys.set("model.rotary_scaling.kind", "none", where);
  keys.set("model.rotary_scaling.factor", 1, where);
  return keys;
}

void write_rotary(OrderedJson& config, const Family& family, const ModelKeys& keys) {
  if (family.rotary_theta == 0) return;
  const double theta = keys.real("model.rotary_theta"), share = keys.real("model.rotary_share");
  if (!family.theta_key.empty()) config[std::string(family.theta_key)] = theta;
  OrderedJson scaling = scaling_of(keys);
  if (scaling.empty() && family.scaled_rotary) scaling["rope_type"] = "default";
  for (const char* section : {"rope_parameters", "rope_scaling"}) {
    if (!family.mrope || !config.contains(section) || !config[section].is_object()) continue;
    for (const char* key : {mrope_section, mrope_interleaved})
      if (config[section].contains(key)) scaling[key] = config[section][key];
    if (!scaling.empty() && !scaling.contains("rope_type")) scaling["rope_type"] = "default";
  }
  const bool is_new_form = config.contains("rope_parameters") && !config["rope_parameters"].is_null();
  if (is_new_form) {
    if (scaling.empty()) scaling["rope_type"] = "default";
    scaling["rope_theta"] = theta;
    if (share != family.rotary_share || config["rope_parameters"].contains("partial_rotary_factor"))
      scaling["partial_rotary_factor"] = share;
    config["rope_parameters"] = std::move(scaling);
    for (const char* key : {"rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings"})
      config.erase(key);
    return;
  }
  config["rope_theta"] = theta;
  if (share != family.rotary_share || config.contains("partial_rotary_factor")) config["partial_rotary_factor"] = share;
  if (scaling.empty() && !config.contains("rope_scaling")) return;
  config["rope_scaling"] = scaling.empty() ? OrderedJson() : scaling;
}

}  // namespace hexad::interop
