// Counting parameters and operations by hand, without building the model.
#pragma once

#include <vector>

#include "layers/model_config.h"

namespace hexad::layers {

struct ModelSize {
  int64_t parameters = 0;         // all
  int64_t active_parameters = 0;  // those a token meets: chosen experts only
  int64_t expert_parameters = 0;  // routed experts, all layers
  /// Of forward and backward of one token in a sequence of `context` tokens: 6 for every weight of a product that the
  /// token meets (the embedding is a table, the head a product), 12 C H (context / 2) a layer for causal attention, the
  /// double of it for bidirectional. Recomputation is not counted.
  double flops_per_token = 0;
};

/// The same FLOPs by part: those of each block, and of final norm and head.
struct PartFlops {
  std::vector<double> layers;
  double head = 0;
};
PartFlops flops_by_part(const ModelConfig& c);

/// For the built-in layers; a registered `mlp` counts as nothing (its parameters are known once the model is built).
ModelSize model_size(const ModelConfig& c);

}  // namespace hexad::layers
