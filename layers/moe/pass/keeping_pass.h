// Pass whose activations are kept for backward (schedule.moe.memory_reuse: none).
#pragma once

#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

/// Runs forward and records the op, whose backward takes T_DI and T_M from the tape. `shared` runs while rows are in
/// flight.
Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared);

}  // namespace hexad::moe
