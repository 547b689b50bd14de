// One call of the op moe_pass, and the two functions that run it: keeping_pass() and restoring_pass().
#pragma once

#include <memory>
#include <vector>

#include "layers/base/moe_names.h"
#include "layers/moe/pass/expert_tasks.h"

namespace hexad::moe {

using autograd::Backward;
using autograd::Saved;

/// One call of an MoE layer, from its forward to its backward. In the comments below, the shared experts include the
/// dense MLP of model.moe.dense_residual (SharedWork).
struct PassCall {
  std::shared_ptr<const Routes> routes;
  const Experts* experts;
  SharedCost shared;                                   // cost of the shared experts in forward
  std::vector<schedule::Transfer> backward_transfers;  // transfers of the shared experts in backward
  size_t first_shared_op;                              // index of the shared experts' first op on the tape

  /// Returns the shared experts' work in backward `b`, for a task of the pass: the pullbacks of the ops that forward
  /// recorded. Returns no work if there are no shared experts, or if they do not run as a task of the pass.
  SharedWork shared_backward(Backward& b) const;
  /// Records the op with result `out` and inputs `x`, `weights` and `addends`. Each addend gets the gradient of `out`.
  /// The pullbacks of the shared experts run before `pullback` if the shared experts do not run as a task of backward.
  Value record(Tape& tape, const Tensor& out, const Value& x, const Value& weights, const std::vector<Value>& addends,
               const std::vector<Tensor>& saved, autograd::Pullback pullback) const;
};

/// Runs forward and records the op. Backward reads T_DI and T_M from the tape. Used for schedule.moe.memory_reuse:
/// none, and for passes in which restoring would save no memory (moe_pass.cpp).
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                   const std::vector<Value>& addends, const SharedWork& shared);
/// Runs forward and records the op (memory_reuse: s1 to s4; MPMoE, Table 2). In backward, T_DI is fetched or sent
/// again, and T_M is fetched or recomputed.
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                     const std::vector<Value>& addends, const SharedWork& shared);

/// Returns `dout` of this rank's tokens, divided by the number of times that each token is computed (Routes::copies).
Tensor gradient_per_copy(const Routes& routes, const Tensor& dout, Stream& stream);

}  // namespace hexad::moe
