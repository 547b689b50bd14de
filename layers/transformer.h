// The whole model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/block.h"

namespace hexad::layers {

/// Embedding, blocks, norm, head: a decoder (next token) or an encoder (masked tokens).
class Transformer {
 public:
  Transformer(const ModelConfig& c, const Registry& registry, const Builder& b);

  struct TrainOptions {
    Recompute recompute = Recompute::none;
    CrossEntropyOptions loss;
  };
  struct Losses {
    Value total;                   // [1] acc: sum of cross-entropy over this micro-batch's targets
    std::vector<Value> penalties;  // [1] each: one of every MoE layer that has any
  };
  /// Forward of a micro-batch up to the loss. `row_losses` (may be null) receives the losses [T].
  Losses loss(Tape& t, const Pass& pass, const TrainOptions& options, Tensor* row_losses = nullptr) const;
  /// Logits [T, V] in acc of all positions; for tests and generation.
  Tensor logits(Tape& t, const Pass& pass) const;

  /// An empty cache for one sequence of up to `length` tokens.
  KeyValueCache make_cache(int64_t length, Device device) const;
  /// The MoE layers in order.
  std::vector<moe::MoeLayer*> moe_layers() const;
  const ModelConfig& config() const { return config_; }

 private:
  /// Output of the final norm, and the penalties on the way.
  std::pair<Value, std::vector<Value>> hidden(Tape& t, const Pass& pass, Recompute recompute) const;

  ModelConfig config_;
  Dtype dtype_;
  Parameter *embedding_, *position_embedding_ = nullptr, *head_;
  std::unique_ptr<RotaryTable> rotary_;
  std::vector<Block> blocks_;
  std::optional<Norm> norm_;
};

}  // namespace hexad::layers
