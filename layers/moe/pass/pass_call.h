// One call of the op moe_pass, and the two passes that serve it.
#pragma once

#include <memory>

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
  SharedWork shared;       // costs of the shared experts in forward, without the function
  size_t first_shared_op;  // number of the shared experts' first op on the tape

  /// Returns the shared experts' work in backward, as a part of `b`: the pullbacks of the ops that forward recorded.
  SharedWork shared_backward(Backward& b) const;
};

// The passes, each in the file of its name. They run forward and record the op. `shared` is computed meanwhile.

/// Keeps the activations for backward (schedule.moe.memory_reuse: none), which takes T_DI and T_M from the tape.
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);
/// Restores the activations: backward fetches, sends again or recomputes T_DI and T_M (memory_reuse: s1 to s4; MPMoE,
/// Table 2).
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);

}  // namespace hexad::moe
