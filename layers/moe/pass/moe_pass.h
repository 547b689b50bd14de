// Dispatch, experts and combine as a single op of the tape. Its forward and backward are passes.
#pragma once

#include <vector>

#include "layers/base/moe_names.h"
#include "layers/moe/pass/expert_tasks.h"

namespace hexad::moe {

/// Result of moe_pass().
struct PassResult {
  Value out;            // output of the layer, T_O
  int64_t hot_experts;  // number of hot experts; each ep rank had a shadow of each hot expert
};

/// Computes the output: out[t] = sum_k weights[t, k] * expert_{ids[t, k]}(x[t]) over the kept slots, plus row t of each
/// of `addends`. x[T, D], weights[T, K] in the accumulator dtype, ids[T, K] i32 (-1: dropped). `held` describes how the
/// tp ranks hold x, weights and ids. `out` has the rows of all ranks if `held` is Held::share, and otherwise the rows
/// of x. The addends have the shape and dtype of `out`. Collective over the groups of `settings`.
/// schedule.moe.memory_reuse decides which tensors are kept for backward. `shared` runs at the time that
/// schedule.moe.shared selects, is recorded on the tape, and may append its result to `addends`. The pullbacks of
/// `shared` run during the pullback of this op. x and the weights must therefore not depend on the result of `shared`.
PassResult moe_pass(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, Held held,
                    const Experts& experts, const PassSettings& settings, const std::vector<Value>& addends,
                    const SharedWork& shared);

/// Returns this rank's share [T, D] of rows that all tensor-parallel ranks hold. Backward gathers the gradients of all
/// shares.
Value take_share(Tape& tape, const Value& x, const PassSettings& settings);

}  // namespace hexad::moe
