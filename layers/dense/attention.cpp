#include "layers/dense/attention.h"

#include <algorithm>
#include <cmath>

#include "parallel/tp/split_norm.h"

namespace hexad::layers {

using namespace autograd;
using namespace kernels;

namespace {

// Creates the projection to gates; returns none without attention_gate. Called before "output" is created, because
// parameters are in order of use.
std::optional<Linear> gate_of(const ModelConfig& c, const Builder& b) {
  if (!c.attention_gate) return {};
  return Linear({.inputs = c.hidden,
                 .outputs = c.heads * c.size_of_head(),
                 .init_std = c.init_std,
                 .bias = c.has_qkv_bias(),
                 .parallel = Parallel::column},
                b / "gate");
}

}  // namespace

Attention::Attention(const ModelConfig& c, const RotaryTable* rotary, int64_t layer, const Builder& b,
                     const RotaryTable* temperature)
    : SelfAttention(c, 1 / std::sqrt(static_cast<double>(c.size_of_head())), layer, b),
      layer_(layer),
      heads_(c.heads / b.mesh().size(Axis::tp)),
      kv_heads_(std::max<int64_t>(1, c.key_value_heads() / b.mesh().size(Axis::tp))),
      head_size_(c.size_of_head()),
      tensor_(b.tensor_parallel()),
      clip_(c.qkv_clip),
      qk_norm_(c.qk_norm),
      norm_eps_(c.norm_eps),
      rotary_(rotary),
      temperature_(temperature),
      q_({c.hidden, c.heads * head_size_, c.init_std, c.has_qkv_bias(), Parallel::column}, b / "q"),
      k_({c.hidden, c.key_value_heads() * head_size_, c.init_std, c.has_qkv_bias(), Parallel::column,
          c.key_value_heads()},
         b / "k"),
      v_({c.hidden, c.key_value_heads() * head_size_, c.init_std, c.has_qkv_bias(), Parallel::column,
          c.key_value_heads()},
         b / "v"),
      gate_(gate_of(c, b)),
      output_({c.heads * head_size_, c.hidden, c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers)),
               c.has_o_bias(), Parallel::row},
              b / "output") {
  if (qk_norm_ == QkNorm::none || qk_norm_ == QkNorm::unit) return;
  const auto norm = [&](int64_t heads, int64_t pieces) {
    const bool head = qk_norm_ == QkNorm::head;
    return Norm::Config{.size = head ? head_size_ : heads * head_size_,
                        .kind = c.norm == NormKind::zero_centred_rms_norm ? c.norm : NormKind::rms_norm,
                        .eps = c.norm_eps,
                        .placement = head ? b.partial() : b.shard(0, pieces)};
  };
  q_norm_.emplace(norm(c.heads, 0), b / "q_norm");
  k_norm_.emplace(norm(c.key_value_heads(), c.key_value_heads()), b / "k_norm");
}

Attention::Heads Attention::project(Tape& t, const Value& x, const ForwardContext& context) const {
  std::vector<tp::Projection> projections{q_.projection(), k_.projection(), v_.projection()};
  if (gate_) projections.push_back(gate_->projection());
  std::vector<Value> projected = tp::column_linear(t, x, projections, tensor_);
  if (qk_norm_ == QkNorm::all_heads) {
    const tp::NormedHeads normed = tp::split_rms_norms(t, projected[0], *q_norm_->weight, projected[1],
                                                       *k_norm_->weight, q_norm_->eps, *tensor_.group);
    projected[0] = normed.q, projected[1] = normed.k;
  }
  if (clip_)
    for (size_t i = 0; i < 3; ++i) projected[i] = clamp(t, projected[i], *clip_);
  const auto split = [&](const Value& y, int64_t heads) {
    return reshape(t, y, {context.batch.rows(), heads, head_size_});
  };
  Heads h{split(projected[0], heads_), split(projected[1], kv_heads_), split(projected[2], kv_heads_)};
  if (gate_) h.gate = projected[3];
  if (qk_norm_ == QkNorm::head) h.q = (*q_norm_)(t, h.q), h.k = (*k_norm_)(t, h.k);
  // This norm may precede the rotation, because a norm without a gain commutes with a rotation.
  if (qk_norm_ == QkNorm::unit && rotary_)
    h.q = unit_rms_norm(t, h.q, norm_eps_), h.k = unit_rms_norm(t, h.k, norm_eps_);
  if (rotary_) {
    const Rotated rotated = rotary(t, h.q, h.k, context.batch.positions, rotary_->cosine, rotary_->sine);
    h.q = rotated.q, h.k = rotated.k;
  } else if (temperature_) {
    h.q = rotary(t, h.q, context.batch.positions, temperature_->cosine, temperature_->sine);
  }
  return h;
}

// Computes the attention of the new tokens of one sequence to themselves and to earlier tokens. The cache contains the
// keys and values of all earlier tokens. Appends the keys and values of the new tokens.
Value Attention::attend_to_cache(Tape& t, const Heads& h, KeyValueCache& cache) const {
  const Tensor &keys = cache.layers[layer_].keys, &values = cache.layers[layer_].values;
  const int64_t begin = cache.length, end = begin + h.k.data.dim(0);
  const auto& copy = kernels::kernels(h.q.device()).pointwise.copy;
  copy(t.stream, keys.slice(0, begin, end), h.k.data);
  copy(t.stream, values.slice(0, begin, end), h.v.data);
  return attend_from(t, begin, h.q, {keys.slice(0, 0, end)}, {values.slice(0, 0, end)});
}

// Computes the attention of the new tokens of each sequence. Rows of padding are zero in the result and are not added
// to a cache.
Value Attention::attend_to_caches(Tape& t, const Heads& h, const ForwardContext& context) const {
  const MicroBatch& batch = context.batch;
  if (batch.sequences == 1 && !batch.valid.defined()) return attend_to_cache(t, h, *context.caches[0]);
  const Tensor out = Tensor::zeros(h.q.shape(), h.q.data.dtype(), h.q.device());
  for (int64_t s = 0; s < static_cast<int64_t>(context.caches.size()); ++s) {
    const int64_t begin = s * batch.length, end = begin + batch.valid_in(s);
    const auto rows = [&](const Value& x) { return Value{x.data.slice(0, begin, end)}; };
    const Value y = attend_to_cache(t, {rows(h.q), rows(h.k), rows(h.v)}, *context.caches[s]);
    kernels::kernels(out.device()).pointwise.copy(t.stream, out.slice(0, begin, end), y.data);
  }
  return {out};
}

Value Attention::operator()(Tape& t, const Value& x, const ForwardContext& context) const {
  const Heads h = project(t, x, context);
  const Value y = context.caches.empty() ? attend(t, h.q, h.k, h.v, context) : attend_to_caches(t, h, context);
  const Value rows = reshape(t, y, {context.batch.rows(), heads_ * head_size_});
  return tp::row_linear(t, gate_ ? gate_elements(t, rows, h.gate) : rows, *output_.weight, output_.bias, tensor_);
}

KeyValueCache::Layer Attention::make_cache(int64_t length, Dtype dtype, Device device) const {
  const Shape shape{length, kv_heads_, head_size_};
  return {Tensor::empty(shape, dtype, device), Tensor::empty(shape, dtype, device)};
}

}  // namespace hexad::layers
