// Strategies by which backward obtains the expert activations (schedule.moe.memory_reuse; MPMoE, Table 2).
#pragma once

#include <memory>

#include "layers/moe/pass/combine.h"

namespace hexad::moe {

using autograd::Backward;
using autograd::Saved;
using autograd::Tape;
using autograd::Value;

/// One call of an MoE layer, from its forward to its backward.
struct PassCall {
  std::shared_ptr<const Routes> routes;
  const Experts* experts;
  SharedWork shared;       // of forward; without work: costs alone
  size_t first_shared_op;  // of the shared experts, on the tape

  /// The pullbacks of the shared experts' ops, which forward recorded, as a part of `b`'s.
  SharedWork shared_backward(Backward& b) const;
};

/// keep.cpp: memory_reuse: none. Runs forward and records the op; `shared` is computed meanwhile.
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);
/// restore.cpp: S1 to S4.
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);

}  // namespace hexad::moe
