// Dispatch, experts and combine as one op of the tape whose forward and backward are task graphs.
#pragma once

#include <memory>

#include "framework/schedule/task_graph.h"
#include "layers/moe/experts.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

/// The ranks that share the experts of a layer, and those that share each expert's width.
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp;
};

/// out[t] = sum_k weights[t, k] expert_{ids[t, k]}(x[t]) over the kept slots of `plan`. Collective over the groups.
/// x[T, D]; weights[T, K] acc. Kept for backward: the experts' inputs and middles (by the tape's policy) and the
/// returned rows of every slot, which the gradient of the weights needs.
Value route_through_experts(Tape& tape, const Value& x, const Value& weights,
                            std::shared_ptr<const ep::RoutingPlan> plan, const Experts& experts,
                            const ExpertGroups& groups);

/// One pass of rows to the experts and back, in MPMoE's names: T_I is permuted and sent (S), T_DI goes through the
/// experts (C), T_DO returns (R). Ranks that share an expert's width gather their rows before (G) and add up their
/// results after (A). Backward passes have the same form with gradients for tensors: each step's adjoint is its
/// counterpart.
struct ExpertPass {
  std::shared_ptr<const ep::RoutingPlan> plan;
  ExpertGroups groups;
  Tensor send;                                              // [S, D] in plan order
  std::function<Tensor(Stream&, const Tensor&)> compute{};  // grouped rows [R, D] to [R, D]
  Tensor dispatched{}, computed{}, returned{};              // filled as the pass goes
};

/// The graph of one pass: inter: S R(C) | compute: C(S); with etp > 1 inter: S R(A) | intra: G(S) A(C) | compute: C(G).
/// `pass` outlives the graph.
schedule::TaskGraph make_expert_graph(ExpertPass& pass);

}  // namespace hexad::moe
