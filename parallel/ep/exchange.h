// Moves rows between tokens and experts along a RoutingPlan. Each direction is the adjoint of the other.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::ep {

/// Rows in flight: `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};

/// Sends rows [S, D], in plan order, to their experts' ranks; returns [R, D] in arrival order. In a group of one the
/// rows are already there and nothing is copied.
InFlight send_to_experts(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& ep, Stream& stream);
/// The way back: [R, D] in arrival order to [S, D] in plan order.
InFlight send_to_tokens(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& ep, Stream& stream);

/// The rows that each etp rank has received, [rows_received(), D], to those of all of them, [R, D], in rank order ...
InFlight share_rows(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& etp, Stream& stream);
/// ... and the adjoint: addends [R, D] of every etp rank to the sums of this rank's own rows. Sums are taken in rank
/// order, of bf16 in f32.
Tensor add_shared_rows(const RoutingPlan& plan, const Tensor& addends, const comm::ProcessGroup& etp, Stream& stream);

/// Shared rows to rows grouped by local expert, and back.
Tensor group_by_expert(const RoutingPlan& plan, const Tensor& rows, Stream& stream);
Tensor group_by_source(const RoutingPlan& plan, const Tensor& rows, Stream& stream);

}  // namespace hexad::ep
