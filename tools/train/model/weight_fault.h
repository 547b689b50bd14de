// Deliberate faults in weights and gradients, for tests: see tools/train/process/planted_fault.h.
#pragma once

#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// Plants a fault in weights if HEXAD_FAULT requests one for this rank and step. Called before each step.
/// - `nan`: in the last parameter, the first weight that this rank owns becomes NaN.
/// - `flip`: in the last parameter, the last bit of the first weight that this rank owns changes.
/// - `ulp`: in the first parameter, the last bit of every weight that this rank owns changes.
void inject_weight_fault(int rank, int64_t step, ModelInstance& instance);

/// Plants the fault `gradient@rank,step,NAME`. From rank `rank` and step `step` on, multiplies the reduced gradients of
/// parameters whose names contain NAME by parallel.ep. Real trainers have had this bug, and
/// `hexad verify` finds it. Called before the gradients are used.
void inject_gradient_fault(int rank, int64_t step, ModelInstance& instance);

}  // namespace hexad::train
