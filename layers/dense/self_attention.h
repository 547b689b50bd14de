// Base class of the self-attention layers. They attend to the whole micro-batch, which may be divided over cp ranks, or
// to cached keys in generation.
#pragma once

#include "layers/base/model_config.h"
#include "layers/dense/token_mixer.h"

namespace hexad::layers {

/// Self-attention layer of a block. With model.sinks, its parameter "sinks" [heads] contains the logit of each head's
/// attention sink. A token attends only to a sliding window with model.window, and only to its chunk with
/// model.attention_chunk. Blocks with full attention ignore both settings (ModelConfig::has_full_attention).
class SelfAttention : public TokenMixer {
 protected:
  /// Sets the members that both kinds of attention need. Scores are multiplied by `scale`.
  SelfAttention(const ModelConfig& c, double scale, int64_t layer, const Builder& b);

  /// Returns the attention of q[R, H, C] to k and v, both [R, G, C], over the whole sequences of the micro-batch. R:
  /// number of rows. H: number of query heads. G: number of key/value heads. C: size of a head. The elements of a head
  /// of v after the first ModelConfig::size_of_value() must be zero, also in attend_from().
  Value attend(Tape& t, const Value& q, const Value& k, const Value& v, const ForwardContext& context) const;
  /// Returns the attention of the new tokens of one sequence, which begin at position `begin`. `k` and `v` are the keys
  /// and values of all tokens of the sequence so far.
  Value attend_from(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const;
  /// Returns the attention [1, H, C] of a sequence's last token, whose queries are q[1, H, C]. `rows` [T, 1, C], one
  /// per token so far, are the keys and the values of all heads. Gradients are not computed.
  Tensor attend_from_last(Stream& stream, const Tensor& q, const Tensor& rows) const;

 private:
  Value attend_in_chunk(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const;

  double scale_;
  bool causal_, deterministic_;
  const comm::ProcessGroup* cp_group_;
  cp::ContextKind context_kind_;
  int64_t window_, chunk_;  // see ModelConfig::window_of and chunk_of
  int64_t value_size_;      // elements of a value head; zeros follow up to the size of a key head
  autograd::AttentionSinks sinks_;
};

}  // namespace hexad::layers
