// Operations of a router, if several ranks may route the same rows.
#pragma once

#include "framework/autograd/ops/ops.h"

namespace hexad::moe {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

/// Returns logits[T, E] = x[T, D] w[E, D]^T. The gradient of x covers all rows, the gradient of w only rows [begin,
/// end). If several ranks route the same rows, each rank adds the gradient of its own share.
Value router_logits(Tape& tape, const Value& x, Parameter& w, int64_t begin, int64_t end);

/// Returns this rank's addend of a loss [1] that `ranks` ranks compute alike and sum up. Its value is a share, its
/// gradient is whole.
Value share_value(Tape& tape, const Value& loss, int ranks);

}  // namespace hexad::moe
