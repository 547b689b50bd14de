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
  Tensor out;           // T_O [T, D]
  Tensor slot_results;  // slot rows [S, D], as they returned; undefined where the pass is bounded
};

/// Computes T_O from T_I. x [T, D] and weights [T, K] acc are the op's inputs; `shared` runs meanwhile.
ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, SharedWork shared, Stream& stream);

}  // namespace hexad::moe
