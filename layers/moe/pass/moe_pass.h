// Dispatch, experts and combine as one op of the tape whose forward and backward are passes.
#pragma once

#include "layers/moe/experts.h"
#include "layers/moe/pass/expert_route.h"
#include "layers/moe/pass/shared_work.h"

namespace hexad::moe {

using autograd::Tape;
using autograd::Value;

/// out[t] = sum_k weights[t, k] expert_{ids[t, k]}(x[t]) over the kept slots: T_O of T_I. x[T, D], weights[T, K] acc,
/// ids[T, K] i32 (-1: dropped). `alike`: the tensor ranks hold the same x, weights and ids, and shall hold the same
/// result; otherwise the tokens are this rank's own. Collective over the groups. What is kept for backward:
/// memory_reuse.h. `shared`: what is computed in forward meanwhile (products of the pass forward) and recorded on the
/// tape; its pullbacks run during the op's own, so nothing that uses the op's result may lead to it.
Value moe_pass(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, bool alike, const Experts& experts,
               const ExpertRoute& route, SharedWork shared = {});

}  // namespace hexad::moe
