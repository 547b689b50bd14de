// Self-attention with grouped queries.
#pragma once

#include <optional>

#include "layers/dense/linear.h"
#include "layers/dense/norm.h"
#include "layers/dense/rotary_table.h"
#include "layers/dense/self_attention.h"

namespace hexad::layers {

/// Attention layer: softmax(q k^T / sqrt(C)) v of the normalised input, projected back. Parameters:
///   - "q", "k", "v" and "output"
///   - "gate" with attention_gate: the sigmoid of the gate multiplies the attention
///   - "q_norm" and "k_norm", both [C], with qk_norm head
///   - "q_norm" [H C] and "k_norm" [G C] with qk_norm all_heads
/// H: number of query heads. G: number of key/value heads. C: size of a head. Heads are split over tp ranks, and tokens
/// over cp ranks. Several tp ranks hold the same key/value head if there are fewer key/value heads than tp ranks. With
/// model.temperature, blocks without rotary positions multiply the queries by the factor of TemperatureConfig.
class Attention : public SelfAttention {
 public:
  /// Makes the layer. `rotary` (null: no rotary positions) and `temperature` (null: no factor of the queries) must
  /// outlive the layer.
  Attention(const ModelConfig& c, const RotaryTable* rotary, int64_t layer, const Builder& b,
            const RotaryTable* temperature = nullptr);

  Value operator()(Tape& t, const Value& x, const ForwardContext& context) const override;
  KeyValueCache::Layer make_cache(int64_t length, Dtype dtype, Device device) const override;

 private:
  struct Heads {
    Value q, k, v;
    Value gate{};  // [rows, H C]; undefined without attention_gate
  };
  Heads project(Tape& t, const Value& x, const ForwardContext& context) const;
  Value attend_to_cache(Tape& t, const Heads& h, KeyValueCache& cache) const;
  Value attend_to_caches(Tape& t, const Heads& h, const ForwardContext& context) const;

  int64_t layer_, heads_, kv_heads_, head_size_;  // index of the layer; numbers of heads on this rank; size of a head
  tp::TensorParallel tensor_;
  std::optional<double> clip_;
  QkNorm qk_norm_;
  double norm_eps_;
  const RotaryTable *rotary_, *temperature_;  // temperature_ is used only if rotary_ is null
  Linear q_, k_, v_;
  std::optional<Linear> gate_;
  Linear output_;
  std::optional<Norm> q_norm_, k_norm_;
};

}  // namespace hexad::layers
