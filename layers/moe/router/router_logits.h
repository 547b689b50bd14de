// Ops of a router whose rows other ranks may route, too.
#pragma once

#include "framework/autograd/ops/ops.h"

namespace hexad::moe {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

/// logits[T, E] = x[T, D] w[E, D]^T. The gradient of x is that of all rows, the gradient of w that of rows [begin, end)
/// alone: where several ranks route the same rows, each of them adds those of its own share.
Value router_logits(Tape& tape, const Value& x, Parameter& w, int64_t begin, int64_t end);

/// A loss [1] that `ranks` ranks compute alike, as this rank's addend to a sum over them: its value is a share, its
/// gradient is whole.
Value share_value(Tape& tape, const Value& loss, int ranks);

}  // namespace hexad::moe
