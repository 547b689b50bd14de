// Parameters and operations of a model, counted by making it and running it on a meta device.
#pragma once

#include <vector>

#include "layers/registry.h"

namespace hexad::layers {

struct ModelSize {
  int64_t parameters = 0;         // all
  int64_t active_parameters = 0;  // those a token meets: chosen experts only
  int64_t expert_parameters = 0;  // routed experts, all layers
  /// Floating-point operations of forward and backward for one token in a sequence of `context` tokens: 6 for every
  /// weight of a product that the token meets (the embedding is a table, the head a product), 12 C H (context / 2) a
  /// layer for causal attention, twice that for bidirectional. Recomputation is not counted.
  double flops_per_token = 0;
};

/// The same FLOPs by part: those of each block, and of final norm and head. Blocks with experts are taken to be alike,
/// and those without.
struct PartFlops {
  std::vector<double> layers;
  double head = 0;
};
PartFlops flops_by_part(const ModelConfig& c, const Registry& registry);

/// Parameters alone: no pass is run.
ModelSize parameter_counts(const ModelConfig& c, const Registry& registry);
ModelSize model_size(const ModelConfig& c, const Registry& registry);

}  // namespace hexad::layers
