// Dispatch, experts and combine as one op of the tape whose forward and backward are task graphs.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/runner.h"
#include "layers/moe/experts.h"
#include "layers/moe/moe_schedule.h"
#include "layers/moe/round_trip.h"
#include "layers/moe/trip_order.h"

namespace hexad::moe {

/// How the tokens of a layer reach its experts.
struct ExpertRoute {
  MoeSchedule schedule;
  TripOrder order;  // that schedule.order names
  int64_t experts;  // of all ranks
  ep::ExpertGroups groups;
  const comm::ProcessGroup* tensor;         // ranks that may hold the same tokens
  std::vector<int> tensor_ep_ranks;         // place of each of them among the ranks of its ep group
  std::string name;                         // of the layer, for its runner
  schedule::GraphRunner* runner = nullptr;  // of every pass; null: it is executed

  /// How often each token is computed when each of the tensor ranks holds all of them.
  int copies() const;
};

/// out[t] = sum_k weights[t, k] expert_{ids[t, k]}(x[t]) over the kept slots. x[T, D], weights[T, K] acc, ids[T, K] i32
/// (-1: dropped). `alike`: the tensor ranks hold the same x, weights and ids, and shall hold the same result; otherwise
/// the tokens are this rank's own. Collective over the groups. Kept for backward: the experts' inputs and middles (by
/// the tape's policy) and, for the gradient of the weights, the returned rows of this rank's slots; where rows are of
/// tokens, the experts' results instead. `shared`: what is computed in forward meanwhile (products of the pass forward)
/// and recorded on the tape; its pullbacks run during the op's own, so nothing that uses the op's result may lead to
/// it.
Value route_through_experts(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, bool alike,
                            const Experts& experts, const ExpertRoute& route, SharedWork shared = {});

}  // namespace hexad::moe
