// One call of the op moe_pass.
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

}  // namespace hexad::moe
