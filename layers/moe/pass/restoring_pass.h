// Implementation of moe_pass() that restores the activations in backward.
#pragma once

#include <vector>

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

/// Runs forward and records the op (memory_reuse: s1 to s4; MPMoE, Table 2). In backward, T_DI is fetched or sent
/// again, and T_M is fetched or recomputed.
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                     const std::vector<Value>& addends, const SharedWork& shared);

}  // namespace hexad::moe
