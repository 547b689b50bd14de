// Rows of tokens (`rows: token`, EPS-MoE): each is sent once to a rank, copied there for each of the token's experts,
// and returns as one sum.
#pragma once

#include "layers/moe/pass/row_format.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

/// Rows of tokens that arrived in `format` as `sent`, copied to where they are computed: to `grouped`, each with the
/// weights of its slot. Returns the weights [R, M X] as they came; undefined: none did.
Tensor copy_to_groups(Stream& s, const RowFormat& format, const Tensor& sent, const ep::ChunkIndices& chunk,
                      const Rows& grouped);
/// EPS-MoE's LocalReduce: of each row that arrived the sum of what was computed of its copies, times weights [R, M]
/// (undefined: one), and beside it their row weights, 0 where it has no more slots.
Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights);

/// Returns the weights of the slots of each row to send, [W, M], from those of the plan's tokens, weights [T, K] acc; 0
/// where it has no more slots.
Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights);
/// out[row_slots[r, m]] = row_weights[r, m] for the slots [R, M] of slot rows (PlanIndices::row_slots, or a part of
/// them): what came back beside rows, to out [T, K].
void scatter_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots);

}  // namespace hexad::moe
