// The forward pass.
#pragma once

#include "layers/moe/pass/combine.h"
#include "layers/moe/pass/offloaded_activations.h"

namespace hexad::moe {

/// Destinations of the tensors that forward keeps for backward.
struct ForwardKeeps {
  std::vector<ChunkActivations>* all = nullptr;  // by chunk, one when they are computed together; null: nothing is kept
  /// Memory reuse: takes what is kept instead, and moves it away. The pass is bounded then, and each chunk's results
  /// are combined on their own, those of `tokens`.
  OffloadedActivations* offloaded = nullptr;
  const std::vector<ChunkTokens>* tokens = nullptr;
};

struct ForwardResult {
  Tensor out;       // T_O [T, D]
  Tensor returned;  // slot rows [S, D]; undefined where the pass is bounded
};

/// Computes T_O from T_I. x [T, D] and weights [T, K] acc are the op's inputs; `shared` runs meanwhile.
ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, SharedWork shared, Stream& stream);

/// The experts' weights, for a pass to compute with. Ranks take them at the same place of every pass, whatever its rows
/// and chunks. None for a pass that is only looked at.
ExpertWeights hold_weights(const Routes& routes, const Experts& experts, kernels::Direction direction, Stream& s);

/// Adds dispatch.tokens if ranks gather their `tokens` [T, D] first.
void add_token_gather(PassGraph& g, Tensor& tokens);

}  // namespace hexad::moe
