// A block that predicts a token further on (multi-token prediction: DeepSeek-V3, 2024, section 2.2).
#pragma once

#include "layers/block.h"
#include "layers/dense/linear.h"

namespace hexad::layers {

/// Prediction block k. It maps the hidden state of each token i and the embedding of token i + k + 1 to a hidden state
/// from which the head predicts token i + k + 2: norm(block(projection([norm(embedding), norm(hidden state)]))). The
/// hidden state is that of prediction block k - 1, or that of the model for k = 0; both have passed their last norm.
///
/// Parameters: those of a Block, and "token_norm", "hidden_norm", "projection" [D, 2 D] and "norm". They are on all tp
/// ranks, which compute them for the same rows, or for their own rows under sequence parallelism.
class PredictionBlock {
 public:
  /// Makes the block. Its s.layer is the number of layers of the model plus k.
  PredictionBlock(const Block::Spec& s, const Builder& b);

  struct Output {
    Value hidden;      // [rows, D]
    Value aux_losses;  // as in Block::Output
  };
  /// Both inputs are [rows, D].
  Output operator()(Tape& t, const Value& token, const Value& hidden, const ForwardContext& pass,
                    Recompute recompute) const;
  /// Returns the MoE layer; null for a dense block.
  moe::MoeLayer* experts() const { return block_.experts(); }

 private:
  Norm token_norm_, hidden_norm_;
  Linear projection_;
  Block block_;
  Norm norm_;
};

}  // namespace hexad::layers
