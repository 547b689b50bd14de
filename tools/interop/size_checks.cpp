#include "tools/interop/size_checks.h"

#include <string_view>
#include <vector>

namespace hexad::interop {

using namespace base;

namespace {

// With this limit, a damaged config.json cannot exhaust the memory before a tensor is read.
constexpr int64_t max_experts_of_all_blocks = 1'000'000;

/// Returns a text like "vocab_size gives model.vocab 0".
std::string given(const ModelKeys& keys, const Family& family, std::string_view path) {
  return cat(config_keys_of(family, path), " gives ", path, " ", keys.integer(path));
}

/// Checks the conditions of latent attention that limits of single keys do not cover.
void require_latent_sizes(const ModelKeys& keys, const std::string& where) {
  const int64_t heads = keys.integer("model.heads"), value = keys.integer("model.latent.value_size"),
                key = keys.integer("model.latent.rope_size") + keys.integer("model.latent.nope_size");
  if (const Json& groups = keys["model.kv_heads"]; !groups.is_null() && groups != heads)
    fail(ExitCode::data, where, ": num_key_value_heads is ", groups.dump(), ", expected the number of heads, ", heads);
  if (value > key)
    fail(ExitCode::data, where, ": v_head_dim is ", value, ", expected at most qk_nope_head_dim + qk_rope_head_dim, ",
         key);
}

/// Checks the conditions of delta nets that limits of single keys do not cover.
void require_delta_sizes(const ModelKeys& keys, const Family& family, const std::string& where) {
  const auto require_at_least = [&](std::string_view path, int64_t least) {
    if (keys.integer(path) < least)
      fail(ExitCode::data, where, ": ", given(keys, family, path), ", expected at least ", least);
  };
  for (const char* name : {"heads", "key_heads", "key_size", "value_size"})
    require_at_least(cat("model.delta_net.", name), 1);
  require_at_least("model.delta_net.conv_size", 2);
  const int64_t heads = keys.integer("model.delta_net.heads"), groups = keys.integer("model.delta_net.key_heads");
  if (heads % groups != 0)
    fail(ExitCode::data, where, ": linear_num_key_heads is ", groups,
         ", expected a divisor of linear_num_value_heads, ", heads);
}

/// Checks that a token can have the number of experts that config.json gives.
void require_choices(const ModelKeys& keys, const Family& family, const std::string& where) {
  const int64_t experts = keys.integer("model.moe.experts"), groups = keys.integer("model.moe.groups"),
                top_groups = keys.integer("model.moe.top_groups"), top_k = keys.integer("model.moe.top_k");
  const auto refuse = [&](std::string_view path, auto... expected) {
    fail(ExitCode::data, where, ": ", given(keys, family, path), ", expected ", expected...);
  };
  if (groups < 1 || experts % groups != 0) refuse("model.moe.groups", "a divisor of the ", experts, " experts");
  if (top_groups < 1 || top_groups > groups)
    refuse("model.moe.top_groups", "a whole number from 1 to ", groups, ", the number of groups");
  const int64_t most = experts / groups * top_groups;
  if (top_k < 1 || top_k > most)
    refuse("model.moe.top_k", "a whole number from 1 to ", most, ", the number of experts",
           top_groups < groups ? cat(" in ", top_groups, " of ", groups, " groups") : "");
}

}  // namespace

void require_sizes(const ModelKeys& keys, const Family& family, const std::string& where) {
  std::vector<std::string_view> counts{"model.layers", "model.hidden", "model.heads", "model.vocab", "model.context"};
  const bool has_experts = family.pattern != LayerPattern::none;
  if (has_experts) counts.insert(counts.end(), {"model.moe.experts", "model.moe.expert_hidden"});
  for (const std::string_view path : counts)
    if (keys.integer(path) < 1) fail(ExitCode::data, where, ": ", given(keys, family, path), ", expected at least 1");
  if (const int64_t all = keys.blocks() * keys.integer("model.moe.experts"); all > max_experts_of_all_blocks)
    fail(ExitCode::data, where, ": all blocks together would have ", all, " experts, expected at most ",
         max_experts_of_all_blocks);
  if (const Json& head = keys["model.head_size"]; !head.is_null() && head < 1)
    fail(ExitCode::data, where, ": head_dim is ", head.dump(), ", expected at least 1");
  const int64_t heads = keys.integer("model.heads"), hidden = keys.integer("model.hidden");
  const bool latent = keys.text("model.attention") == "latent";
  if (!latent && keys["model.head_size"].is_null() && hidden % heads != 0)
    fail(ExitCode::data, where, ": the hidden size is ", hidden, ", expected a multiple of the ", heads, " heads");
  const Json& groups = keys["model.kv_heads"];
  if (!groups.is_null() && (groups < 1 || heads % groups.get<int64_t>() != 0))
    fail(ExitCode::data, where, ": num_key_value_heads is ", groups.dump(), ", expected a divisor of the ", heads,
         " heads");
  if (latent) require_latent_sizes(keys, where);
  if (family.delta_nets) require_delta_sizes(keys, family, where);
  if (has_experts) require_choices(keys, family, where);
}

std::string config_keys_of(const Family& family, std::string_view recipe) {
  std::string names;
  for (const auto& table : family.keys)
    for (const ConfigKey& key : table)
      if (key.recipe == recipe) names = key.config;
  for (size_t bar = names.find('|'); bar != names.npos; bar = names.find('|')) names.replace(bar, 1, " or ");
  return names;
}

}  // namespace hexad::interop
