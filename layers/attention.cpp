#include "layers/attention.h"

#include <cmath>

namespace hexad::layers {

Attention::Attention(const ModelConfig& c, const RotaryTable* rotary, int64_t layer, const Builder& b)
    : layer_(layer),
      heads_(c.heads),
      kv_heads_(c.key_value_heads()),
      head_size_(c.size_of_head()),
      causal_(c.kind == ModelKind::decoder),
      clip_(c.qkv_clip),
      rotary_(rotary),
      q_({c.hidden, heads_ * head_size_, c.init_std, c.bias}, b / "q"),
      k_({c.hidden, kv_heads_ * head_size_, c.init_std, c.bias}, b / "k"),
      v_({c.hidden, kv_heads_ * head_size_, c.init_std, c.bias}, b / "v"),
      output_({heads_ * head_size_, c.hidden, c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers)), c.bias},
              b / "output") {
  if (!c.qk_norm) return;
  q_norm_.emplace(Norm::Config{head_size_, NormKind::rms_norm, c.norm_eps}, b / "q_norm");
  k_norm_.emplace(Norm::Config{head_size_, NormKind::rms_norm, c.norm_eps}, b / "k_norm");
}

Attention::Heads Attention::project(Tape& t, const Value& x, const Pass& pass) const {
  const auto split = [&](const Linear& projection, int64_t heads) {
    Value y = projection(t, x);
    if (clip_) y = clamp(t, y, *clip_);
    return reshape(t, y, {pass.batch.tokens(), heads, head_size_});
  };
  Heads h{split(q_, heads_), split(k_, kv_heads_), split(v_, kv_heads_)};
  if (q_norm_) h.q = (*q_norm_)(t, h.q), h.k = (*k_norm_)(t, h.k);
  if (rotary_) {
    h.q = rotary(t, h.q, pass.batch.positions, rotary_->cosine, rotary_->sine);
    h.k = rotary(t, h.k, pass.batch.positions, rotary_->cosine, rotary_->sine);
  }
  return h;
}

Value Attention::operator()(Tape& t, const Value& x, const Pass& pass) const {
  Heads h = project(t, x, pass);
  const int64_t length = pass.batch.length;
  AttentionShape shape{.sequences = pass.batch.sequences,
                       .queries = length,
                       .keys = length,
                       .scale = 1 / std::sqrt(static_cast<double>(head_size_)),
                       .causal = causal_};
  if (pass.cache) {  // one sequence: its new tokens attend to all that came before
    auto& cache = pass.cache->layers[static_cast<size_t>(layer_)];
    const int64_t end = pass.cache->length + length;
    const auto& copy = kernels::kernels(x.device()).pointwise.copy;
    copy(t.stream, cache.keys.slice(0, pass.cache->length, end), h.k.data);
    copy(t.stream, cache.values.slice(0, pass.cache->length, end), h.v.data);
    h.k = {cache.keys.slice(0, 0, end)}, h.v = {cache.values.slice(0, 0, end)};
    shape.keys = end, shape.query_offset = pass.cache->length;
  }
  const Value y = attention(t, h.q, h.k, h.v, pass.batch.first, pass.batch.last, shape);
  return output_(t, reshape(t, y, {pass.batch.tokens(), heads_ * head_size_}));
}

}  // namespace hexad::layers
