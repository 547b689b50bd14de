// The way through the experts under MPMoE's strategies S1 to S4: their inputs and middles are not kept for backward.
#pragma once

#include <memory>

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

/// As moe_pass() with restore: s1 ... s4. Kept for backward: x, the weights, and what is offloaded.
/// Results of slots are not kept either: the gradient of a slot's weight, the product of its result with dout, is
/// computed by its expert as the product of the middle with its own gradient, and returns beside the row.
Value route_restoring(Tape& tape, const Value& x, const Value& weights, std::shared_ptr<PassCall> call);

}  // namespace hexad::moe
