// Forward pass of an MoE layer's experts.
#pragma once

#include "layers/moe/pass/combine.h"
#include "layers/moe/pass/offloaded_activations.h"

namespace hexad::moe {

/// Destinations of the tensors that forward keeps for backward.
struct ForwardKeeps {
  std::vector<ChunkActivations>* all = nullptr;  // by chunk, or one entry if chunks are computed together; null: none
  /// Destination instead of `all` under memory reuse, which offloads the tensors. The pass is then bounded, and the
  /// results of each chunk are combined separately, for the chunk's tokens in `tokens`.
  OffloadedActivations* offloaded = nullptr;
  const std::vector<ChunkTokens>* tokens = nullptr;
};

struct ForwardResult {
  Tensor out;           // T_O [T, D]
  Tensor slot_results;  // slot rows [S, D], as returned; undefined if the pass is bounded
};

/// Computes T_O from T_I. x [T, D] and weights [T, K] acc are the op's inputs. `shared` runs while rows are in flight.
ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, SharedWork shared, Stream& stream);

}  // namespace hexad::moe
