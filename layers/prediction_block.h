// Block that predicts a token after the next one (multi-token prediction; DeepSeek-V3, 2024, section 2.2).
#pragma once

#include "layers/block.h"
#include "layers/dense/linear.h"

namespace hexad::layers {

/// Prediction block number k, counted from 0. For each token i, it computes norm(block(projection([norm(embedding),
/// norm(hidden)]))), from which the head predicts token i + k + 2. `embedding` is the embedding of token i + k + 1.
/// `hidden` is the result of prediction block k - 1 for token i; for k = 0, it is the hidden state of the model after
/// its last norm.
///
/// Parameters: all parameters of a Block, and "token_norm", "hidden_norm", "projection" [D, 2 D] and "norm". These four
/// are replicated on all tp ranks. Each tp rank applies them to all rows or, under sequence parallelism, to its own
/// rows.
class PredictionBlock {
 public:
  /// Makes the block. s.layer must be the model's number of layers plus k.
  PredictionBlock(const Block::Spec& s, const Builder& b);

  struct Output {
    Value hidden;      // [rows, D]
    Value aux_losses;  // as in Block::Output
  };
  /// Returns the output of the block for the embeddings `token` [rows, D] and the hidden states `hidden` [rows, D].
  Output operator()(Tape& t, const Value& token, const Value& hidden, const ForwardContext& context,
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
