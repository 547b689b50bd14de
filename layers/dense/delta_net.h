// Gated delta net (Yang et al. 2024), with the layout of Qwen3-Next.
#pragma once

#include <array>

#include "layers/dense/linear.h"
#include "layers/dense/norm.h"
#include "layers/dense/token_mixer.h"

namespace hexad::layers {

/// Linear attention by the gated delta rule. Queries, keys and values are projections of the input, to which a short
/// causal convolution and SiLU are applied. Each value head of a sequence has a state. Each token first changes the
/// state, and then reads the changed state (kernels::DeltaRuleKernels). The output of a value head is normalised by an
/// RMSNorm, multiplied by SiLU of a gate, and projected back.
///
/// Parameters:
///   - "q", "k", "v" and "gate"
///   - "decay", "write", "log_rate" [heads] and "shift" [heads], from which the gates of the rule are computed
///   - "q_conv", "k_conv" and "v_conv" [outputs, conv_size]
///   - "norm" and "output"
/// Heads are divided over tp ranks, and tokens over cp ranks. A cp rank sends the state after each of its pieces of a
/// sequence to the cp rank of the next piece (cp::delta_rule()).
///
/// In generation, the cache holds the state and the last rows of the convolutions' inputs. The size of the cache does
/// not depend on the number of tokens.
class DeltaNet : public TokenMixer {
 public:
  DeltaNet(const ModelConfig& c, int64_t layer, const Builder& b);

  Value operator()(Tape& t, const Value& x, const ForwardContext& context) const override;
  KeyValueCache::Layer make_cache(int64_t length, Dtype dtype, Device device) const override;

 private:
  // Inputs of the convolutions (projections to queries, keys and values), and gates of the delta rule.
  struct Inputs {
    std::array<Value, 3> qkv;
    Value log_decay, strength;
  };
  Value run(Tape& t, const Inputs& in, const ForwardContext& context) const;
  Tensor run_with_cache(Stream& stream, const Inputs& in, KeyValueCache& cache) const;
  Value run_with_caches(Tape& t, const Inputs& in, const ForwardContext& context) const;

  int64_t layer_, key_heads_, heads_;  // index of the layer; numbers of heads on this rank
  DeltaNetConfig sizes_;
  tp::TensorParallel tensor_;
  const comm::ProcessGroup* cp_group_;
  Linear q_, k_, v_, gate_, decay_, write_;
  Parameter *log_rate_, *shift_;
  std::array<Parameter*, 3> convolutions_;
  Norm norm_;
  Linear output_;
};

}  // namespace hexad::layers
