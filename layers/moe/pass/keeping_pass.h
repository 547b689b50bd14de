// Implementation of moe_pass() that keeps the activations for backward.
#pragma once

#include <vector>

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

/// Runs forward and records the op. Backward reads T_DI and T_M from the tape. Used for schedule.moe.memory_reuse:
/// none, and for passes in which restoring would save no memory (moe_pass.cpp).
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                   const std::vector<Value>& addends, const SharedWork& shared);

}  // namespace hexad::moe
