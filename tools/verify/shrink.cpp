#include "tools/verify/shrink.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "framework/base/name_pattern.h"
#include "layers/model_size.h"

namespace hexad::verify {
namespace {

constexpr int64_t head_size = 4, latent_width = 6, odd_width = 10, spare_ids = 5, window = 5;

void lower(int64_t& value, int64_t to) { value = std::min(value, to); }
void lower(std::optional<int64_t>& value, int64_t to) {
  if (value) value = std::min(*value, to);
}

int64_t next_multiple(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

void shrink_latent(layers::ModelConfig& m, int64_t world) {
  lower(m.heads, world);
  m.kv_heads.reset(), m.head_size.reset();
  lower(m.latent.q_rank, latent_width), lower(m.latent.kv_rank, latent_width);
  lower(m.latent.nope_size, head_size), lower(m.latent.rope_size, 2);
  lower(m.latent.value_size, std::min(head_size, m.latent.key_size()));
  lower(m.hidden, m.heads * head_size);
}

void shrink_attention(layers::ModelConfig& m, int64_t world) {
  lower(m.window, window), lower(m.attention_chunk, window);
  if (m.temperature.scale > 0) lower(m.temperature.floor, window);
  if (m.is_latent()) return shrink_latent(m, world);
  const int64_t queries_a_key = m.heads / m.key_value_heads();
  lower(m.heads, std::lcm(world, queries_a_key));
  m.kv_heads = std::max<int64_t>(1, m.heads / queries_a_key);
  // Replaces a rotary_share below 1 by a half, because half of a small head is a whole number of rotated pairs.
  if (m.size_of_head() > head_size && m.rotary_share < 1) m.rotary_share = 0.5;
  m.head_size = std::min(m.size_of_head(), head_size);
  lower(m.hidden, m.heads * head_size);
}

// Fits the lists of LongRoPE to the smaller heads. If the context is long enough for the long factors, lowers
// original_context so that the shortened context still uses the long factors.
void shrink_longrope(layers::ModelConfig& m, int64_t world) {
  layers::RotaryScalingConfig& s = m.rotary_scaling;
  if (s.kind != layers::RotaryScaling::longrope) return;
  for (std::vector<double>* list : {&s.short_factors, &s.long_factors}) list->resize(m.rotary_size() / 2, 1.0);
  if (m.context > s.original_context) lower(s.original_context, world);
}

void shrink_delta_nets(layers::DeltaNetConfig& d, int64_t world) {
  if (!d.used()) return;
  const int64_t values_a_key = d.heads / d.number_of_key_heads();
  d.key_heads = std::min(d.number_of_key_heads(), world);
  d.heads = *d.key_heads * values_a_key;
  lower(d.key_size, head_size), lower(d.value_size, head_size), lower(d.conv_size, 2);
}

void shrink_experts(moe::MoeConfig& m, int64_t world) {
  if (m.experts == 0) return;
  const int64_t step = std::lcm(world, m.groups);
  const int64_t needed = std::max(m.top_k, m.groups * ((m.top_k + m.top_groups - 1) / m.top_groups));
  lower(m.experts, next_multiple(needed, step));
  lower(m.expert_hidden, std::max(odd_width, world));
  lower(m.shared_hidden, std::max(odd_width, world));
}

// Removes the patterns of optim.freeze and optim.muon_except that match no parameter of the smaller model. If the
// remaining patterns of optim.freeze match all parameters, removes these patterns too.
void shrink_patterns(train::Recipe& small, const train::Extensions& extensions) {
  std::vector<std::string>& patterns = small.optim.freeze;
  if (patterns.empty() && small.optim.muon_except.empty()) return;
  layers::ModelConfig model = small.model;
  model.moe.routing = moe::Routing::model;  // other routings may read a file
  const auto parameters = layers::parameter_sizes(model, extensions);
  const auto unknown = [&](const std::string& pattern) {
    return std::ranges::none_of(parameters, [&](const auto& p) { return base::matches(pattern, p.name); });
  };
  std::erase_if(patterns, unknown);
  std::erase_if(small.optim.muon_except, unknown);
  if (std::ranges::all_of(parameters, [&](const auto& p) { return base::matches_any(patterns, p.name); }))
    patterns.clear();
}

}  // namespace

Shrunk shrink(const train::Recipe& recipe, int world, const train::Extensions& extensions) {
  train::Recipe small = recipe;
  layers::ModelConfig& m = small.model;
  const int64_t pattern =
      m.moe.experts > 0 ? m.moe.dense_layers + std::lcm(m.moe.every, m.attention_period()) : m.attention_period();
  lower(m.layers, std::max<int64_t>(world, pattern));
  shrink_attention(m, world);
  shrink_longrope(m, world);
  shrink_delta_nets(m.delta_net, world);
  lower(m.mlp_hidden, std::max<int64_t>(odd_width, world));
  shrink_experts(m.moe, world);
  lower(m.context, 2 * world);
  lower(m.prediction_blocks, std::min<int64_t>(2, m.context - 1));
  lower(m.vocab, 2 * m.context + spare_ids);
  lower(small.batch.micro, 2);
  lower(small.batch.global, small.batch.micro * world);
  small.data = {};
  small.data.synthetic = true;
  small.parallel = {};
  small.schedule.pipeline.split.clear();
  shrink_patterns(small, extensions);
  // Loads the small recipe again, to check all rules.
  train::Recipe legal =
      train::load_recipe(config::parse(config::write(small), "--shrink"), extensions, 0, {}, small.device);
  return {legal, config::differences(recipe, legal)};
}

}  // namespace hexad::verify
