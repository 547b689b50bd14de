// Parameters and operations of a model, counted by a run of the model on a meta device.
#pragma once

#include <vector>

#include "layers/registry.h"

namespace hexad::layers {

struct ModelSize {
  int64_t parameters = 0;         // all parameters
  int64_t active_parameters = 0;  // parameters that a token visits: only its chosen experts count
  int64_t expert_parameters = 0;  // parameters of routed experts, in all layers
  /// Floating-point operations of forward and backward for one token in a sequence of `context` tokens. Each weight by
  /// which the token's activations are multiplied counts 6: the head's weights count, the embedding's do not. Causal
  /// attention counts 12 head_size heads (context / 2) per layer, bidirectional attention twice that. Recomputation is
  /// not counted.
  double flops_per_token = 0;
};

/// FLOPs per token by part: one part for each block, and one for final norm and head. All blocks with experts are
/// assumed to be equal, and so are all dense blocks.
struct PartFlops {
  std::vector<double> layers;
  double head = 0;
};
PartFlops flops_by_part(const ModelConfig& c, const Registry& registry);

/// Counts the parameters only; runs no pass.
ModelSize parameter_counts(const ModelConfig& c, const Registry& registry);
ModelSize model_size(const ModelConfig& c, const Registry& registry);

}  // namespace hexad::layers
