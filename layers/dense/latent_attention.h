// Multi-head latent attention (DeepSeek-V2, 2024, section 2.1).
#pragma once

#include <optional>

#include "layers/dense/linear.h"
#include "layers/dense/norm.h"
#include "layers/dense/rotary_table.h"
#include "layers/dense/self_attention.h"

namespace hexad::layers {

/// Attention whose keys and values are computed from a latent of each token: a vector of kv_rank numbers after RMSNorm.
/// A key head is a rotary part, which all heads share, followed by a part computed from the latent. A query head has
/// the same layout. Value heads may have another size.
///
/// Parameters:
///   - "q", or "q_down", "q_norm" and "q_up" if queries are compressed
///   - "kv_down" and "kv_norm" for the latent
///   - "k_rope" for the shared rotary part
///   - "k_up" and "v_up" for the heads
///   - "output"
/// Heads are divided over tp ranks. "q_down", "kv_down", "k_rope" and the norms are replicated.
///
/// In generation, the cache holds one row for each token: the rotated part of its keys, followed by its latent. A pass
/// over several tokens of a sequence computes the keys and values of all tokens so far from these rows. A pass over one
/// token attends to the rows themselves (section 2.1.2 of the paper). "k_up" is then absorbed into the query, and
/// "v_up" is applied to the result.
class LatentAttention : public SelfAttention {
 public:
  /// Makes the layer. `rotary` must outlive the layer.
  LatentAttention(const ModelConfig& c, const RotaryTable& rotary, int64_t layer, const Builder& b);

  Value operator()(Tape& t, const Value& x, const ForwardContext& context) const override;
  KeyValueCache::Layer make_cache(int64_t length, Dtype dtype, Device device) const override;

 private:
  struct Keys {
    Value k, v;  // [T, H, key size]; values are padded with zeros
  };
  Value queries(Tape& t, const Value& x, const MicroBatch& batch) const;
  Value rotary_part(Tape& t, const Value& x, const MicroBatch& batch) const;
  Value compressed(Tape& t, const Value& x) const { return kv_norm_(t, kv_down_(t, x)); }
  Keys keys(Tape& t, const Value& latent, const Value& rope, const tp::TensorParallel& tensor) const;
  Value attend_to_caches(Tape& t, const Value& q, const Value& latent, const Value& rope,
                         const ForwardContext& context) const;
  Value attend_to_cache(Tape& t, const Value& q, const Value& latent, const Value& rope, KeyValueCache& cache) const;
  Tensor attend_absorbed(Stream& stream, const Tensor& q, const Tensor& rows) const;
  /// Returns the number of elements in a cache row.
  int64_t row_size() const { return sizes_.rope_size + sizes_.kv_rank; }

  int64_t layer_, heads_;  // index of the layer; number of heads on this rank
  LatentConfig sizes_;
  tp::TensorParallel tensor_;
  const RotaryTable& rotary_;
  std::optional<Linear> q_down_;
  std::optional<Norm> q_norm_;
  Linear q_, kv_down_;  // q_ maps the compressed queries if q_down_ exists; otherwise, it maps the input
  Norm kv_norm_;
  Linear k_rope_, k_up_, v_up_, output_;
};

}  // namespace hexad::layers
