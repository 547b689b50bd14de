// Forward pass of an MoE layer's experts.
#pragma once

#include <vector>

#include "layers/moe/pass/combine.h"
#include "layers/moe/pass/offloaded_activations.h"

namespace hexad::moe {

using autograd::Value;

/// Tensors that forward keeps for backward.
struct ForwardKeeps {
  std::vector<ChunkActivations>* all = nullptr;  // by chunk, or one entry if computed together; null: none
  /// Replaces `all` under memory reuse, and offloads the tensors. The pass is then bounded, and the results of each
  /// chunk are combined separately, for the chunk's tokens in `tokens`.
  OffloadedActivations* offloaded = nullptr;
  const std::vector<ChunkTokens>* tokens = nullptr;
};

struct ForwardResult {
  Tensor out;           // T_O [T, D]
  Tensor slot_results;  // slot rows [S, D], as returned; undefined if the pass is bounded
};

/// Computes T_O from T_I. x [T, D], weights [T, K] acc and `addends`, of T_O's shape, are the op's inputs. The launch
/// that sums a token's slots also adds the addends. `shared` may append to `addends`. The shared experts run while rows
/// are in flight (schedule.moe.shared: beside) or alone. Alone, they run after the pass, or before the pass if tasks of
/// the pass make T_O.
ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, const std::vector<Value>& addends, const SharedWork& shared,
                      Stream& stream);

}  // namespace hexad::moe
