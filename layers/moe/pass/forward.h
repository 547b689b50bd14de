// Forward pass of an MoE layer's experts.
#pragma once

#include <vector>

#include "layers/base/moe_names.h"
#include "layers/moe/pass/combine.h"
#include "layers/moe/pass/offloaded_activations.h"

namespace hexad::moe {

/// Tensors that forward keeps for backward.
struct ForwardKeeps {
  // Activations by chunk, or one entry if chunks are computed together; null: `offloaded` is used, or nothing is kept.
  std::vector<ChunkActivations>* all = nullptr;
  /// Offloads the activations that schedule.moe.memory_reuse selects. Used instead of `all` under memory reuse. The
  /// pass is then bounded: it combines the results of each chunk separately, for the chunk's tokens in `tokens`.
  OffloadedActivations* offloaded = nullptr;
  const std::vector<ChunkTokens>* tokens = nullptr;
};

struct ForwardResult {
  Tensor out;           // output T_O [T, D]
  Tensor slot_results;  // slot rows [S, D] before they are summed; undefined if the pass is bounded
};

/// Computes the output T_O from the inputs x [T, D], weights [T, K] (accumulator dtype) and `addends`, which have the
/// shape of T_O. The launch that sums a token's slots also adds the addends. `shared` may append to `addends`. With
/// schedule.moe.shared: beside, the shared experts run while rows are in flight. Otherwise, they run before the pass if
/// tasks of the pass compute T_O, and after the pass if not.
ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, const std::vector<Value>& addends, const SharedWork& shared,
                      Stream& stream);

}  // namespace hexad::moe
