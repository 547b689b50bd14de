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
  SharedWork shared;       // of forward; without work: costs alone
  size_t first_shared_op;  // of the shared experts, on the tape

  /// The pullbacks of the shared experts' ops, which forward recorded, as a part of `b`'s.
  SharedWork shared_backward(Backward& b) const;
};

}  // namespace hexad::moe
