// One pre-norm transformer block.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "layers/dense/norm.h"
#include "layers/dense/rotary_table.h"
#include "layers/dense/token_mixer.h"
#include "layers/moe/moe_layer.h"
#include "layers/recompute_config.h"
#include "layers/registry.h"

namespace hexad::layers {

/// Block that maps x to h + mlp(norm(h)), where h = x + mixer(norm(x)) and the mixer is attention or a delta net. The
/// MLP is dense, a mixture of experts, or the sum of both (dense_residual). With model.moe.input: before_attention, the
/// experts get norm(x) instead of norm(h), from a separate norm.
class Block {
 public:
  /// Arguments of the constructor. The tables `rotary` and `temperature` must outlive the block.
  struct Spec {
    const ModelConfig& model;
    const RotaryTable* rotary;  // null: attention uses no rotary positions
    int64_t layer;              // index of the block in the model
    const Registry& registry;
    const moe::MoeSchedule& schedule;          // schedule of the MoE layer; ignored if the block is dense
    const RotaryTable* temperature = nullptr;  // factors of the queries in blocks without rotary positions; null: none
  };
  Block(const Spec& s, const Builder& b);
  /// Returns the settings of norms over the residual stream of a model.
  static Norm::Config norm_config(const ModelConfig& c) { return {c.hidden, c.norm, c.norm_eps, c.bias}; }

  struct Output {
    Value x;
    Value aux_losses;  // this rank's addend of the auxiliary losses, [1] in the accumulator dtype; its data is
                       // undefined if the block computes no auxiliary losses
  };
  Output operator()(Tape& t, const Value& x, const ForwardContext& context, Recompute recompute) const;
  const TokenMixer& mixer() const { return *mixer_; }
  /// Returns the MoE layer; null for a dense block.
  moe::MoeLayer* experts() const { return moe_.get(); }

 private:
  Output run(Tape& t, const Value& x, const ForwardContext& context, bool recompute_attention) const;

  // Names of spans in traces. The span name_ covers the whole block; only a block with Recompute::block has this span.
  // The span mixer_name_ covers the norms below, the mixer, and the addition of the mixer's output to the residual
  // stream. The span mlp_name_ covers the MLP and the addition of the MLP's output.
  const std::string name_, mixer_name_, mlp_name_;
  Norm attention_norm_;
  std::optional<Norm> mlp_norm_;  // norm of the sum after the mixer; none if no MLP reads this sum
  std::optional<Norm> moe_norm_;  // norm of the experts' input; only with ExpertInput::before_attention
  std::unique_ptr<TokenMixer> mixer_;
  std::unique_ptr<FeedForward> mlp_;
  std::unique_ptr<moe::MoeLayer> moe_;
};

}  // namespace hexad::layers
