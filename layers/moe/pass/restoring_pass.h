// Pass whose activations backward restores (schedule.moe.memory_reuse: s1 to s4; MPMoE, Table 2).
#pragma once

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

/// Runs forward and records the op, whose backward fetches, sends again or recomputes T_DI and T_M. `shared` runs while
/// rows are in flight.
Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);

}  // namespace hexad::moe
