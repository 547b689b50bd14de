// Numbers of parameters and operations of a model, counted in a run of the model on a meta device.
#pragma once

#include <string>
#include <vector>

#include "layers/registry.h"

namespace hexad::layers {

struct ModelSize {
  int64_t parameters = 0;         // all parameters
  int64_t active_parameters = 0;  // parameters that a token uses: of the routed experts, only the chosen ones
  int64_t expert_parameters = 0;  // parameters of routed experts, in all layers
  /// Floating-point operations of forward and backward for one token in a sequence of `context` tokens. Each weight
  /// that multiplies activations of the token counts 6; this includes the head but not the embedding. Each prediction
  /// block uses the head once more. Causal attention counts 12 head_size heads (context / 2) per block, bidirectional
  /// attention twice that. If value heads have another size than key heads, the mean of both sizes counts.
  /// Recomputation is not counted.
  double flops_per_token = 0;
};

/// FLOPs per token of each part: one part for each layer, and one for the final norm, the head and the prediction
/// blocks. All layers with experts are assumed to be equal, and so are all dense layers.
struct PartFlops {
  std::vector<double> layers;
  double head = 0;
};
PartFlops flops_by_part(const ModelConfig& c, const Registry& registry);

/// Counts only the parameters. Runs no pass.
ModelSize parameter_counts(const ModelConfig& c, const Registry& registry);
ModelSize model_size(const ModelConfig& c, const Registry& registry);

struct NamedSize {
  std::string name;
  int64_t elements;
  std::vector<std::string> parts;  // names of the stacked tensors, which older checkpoints contain instead
  autograd::Parameter::Spec spec{};
};
/// Returns the parameters of the whole model, in order of creation. Runs no pass.
std::vector<NamedSize> parameter_sizes(const ModelConfig& c, const Registry& registry);

}  // namespace hexad::layers
