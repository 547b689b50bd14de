// One call of the op moe_pass, and the two passes that implement it.
#pragma once

#include <memory>
#include <vector>

#include "layers/moe/pass/expert_tasks.h"

namespace hexad::moe {

using autograd::Backward;
using autograd::Saved;
using autograd::Tape;
using autograd::Value;

/// One call of an MoE layer, from its forward to its backward.
struct PassCall {
  std::shared_ptr<const Routes> routes;
  const Experts* experts;
  SharedWork shared;       // costs of the shared experts in forward; `compute` is empty
  size_t first_shared_op;  // index of the shared experts' first op on the tape

  /// Returns the work of the shared experts in backward `b`, as a task of the pass: the pullbacks of the ops that
  /// forward recorded. Returns no work if there are no shared experts, or if they are not a task of the pass.
  SharedWork shared_backward(Backward& b) const;
  /// Records the op with result `out` and inputs `x`, `weights` and `addends`. Each addend gets the gradient of `out`.
  /// Unless the shared experts are a task of backward, their pullbacks run before `pullback`.
  Value record(Tape& tape, const Tensor& out, const Value& x, const Value& weights, const std::vector<Value>& addends,
               const std::vector<Tensor>& saved, autograd::Pullback pullback) const;
};

// The two passes, each in the file of its name. They run forward and record the op; see moe_pass().

/// Keeps the activations for backward (schedule.moe.memory_reuse: none). Backward takes T_DI and T_M from the tape.
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                   const std::vector<Value>& addends, const SharedWork& shared);
/// Restores the activations: backward fetches, sends again or recomputes T_DI and T_M (memory_reuse: s1 to s4; MPMoE,
/// Table 2).
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                     const std::vector<Value>& addends, const SharedWork& shared);

}  // namespace hexad::moe
