// Deliberate failures of weights and gradients, for tests: see tools/train/process/planted_fault.h.
#pragma once

#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// `nan` (one weight becomes NaN), `flip` (one bit of a weight changes), `ulp` (the last bit of every weight of the
/// first parameter changes). Called before each step.
void inject_weight_fault(int rank, int64_t step, ModelInstance& instance);

/// `gradient@rank,step,NAME`: from that rank and that step on, the reduced gradients of parameters whose names contain
/// NAME are multiplied by parallel.ep, as trainers have really done; `hexad verify` then shows what it does about it.
/// Called before they are used.
void inject_gradient_fault(int rank, int64_t step, ModelInstance& instance);

}  // namespace hexad::train
