// Numbers of parameters and operations of a model. The operations are counted by a run of the model on a meta device.
#pragma once

#include <string>
#include <vector>

#include "layers/registry.h"

namespace hexad::layers {

struct ModelSize {
  int64_t parameters = 0;         // number of all parameters
  int64_t active_parameters = 0;  // all parameters except those of routed experts that a token does not choose
  int64_t expert_parameters = 0;  // parameters of routed experts, in all layers
  // Parameters outside routed experts that are stored in the accumulator dtype, and therefore need no main weights.
  int64_t accumulator_parameters = 0;
  /// Floating-point operations of forward and backward for one token in a sequence of `context` tokens. Recomputation
  /// is not counted.
  ///   - Matrix products: 6 for each weight that is applied to the token, including the weights of the head. Each
  ///     prediction block applies the head once more. A token has MoeConfig::experts_of_token() routed experts in an
  ///     MoE layer.
  ///   - Embedding: 0.
  ///   - Causal attention: 12 * head_size * heads * (context / 2) per block. Bidirectional attention counts twice as
  ///     much. head_size is the mean of both sizes if value heads and key heads differ in size.
  ///   - Attention with a window: only pairs of tokens within the window count. Chunks count like a window of the same
  ///     size.
  ///   - Delta net: 18 * key_size * value_size * value heads, the products of the token-by-token rule.
  double flops_per_token = 0;
};

/// FLOPs per token of each part: one part for each layer, and one for the final norm, the head and the prediction
/// blocks. Layers with equal is_moe(), is_delta() and window_of() are assumed to have the same cost.
struct PartFlops {
  std::vector<double> layers;
  double head = 0;
};
PartFlops flops_by_part(const ModelConfig& c, const Registry& registry);

/// Counts only the parameters, without running the model. flops_per_token is 0.
ModelSize parameter_counts(const ModelConfig& c, const Registry& registry);
ModelSize model_size(const ModelConfig& c, const Registry& registry);

struct NamedSize {
  std::string name;
  int64_t elements;
  // Names of the separate tensors that older checkpoints contain instead of a stack; empty: not a stack.
  std::vector<std::string> parts;
  autograd::Parameter::Spec spec{};
};
/// Returns the parameters of the whole model, in order of creation, without running the model.
std::vector<NamedSize> parameter_sizes(const ModelConfig& c, const Registry& registry);

}  // namespace hexad::layers
