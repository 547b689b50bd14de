// The routing weights of slots beside rows.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

using tensor::Tensor;

using device::Stream;

/// Of each row to send the weights of its slots, [W, M], from those of the plan's tokens, weights [T, K] acc; 0 where
/// it has no more slots.
Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights);

/// out[row_slots[r, m]] = row_weights[r, m] for the slots [R, M] of slot rows (PlanIndices::row_slots, or a part of
/// them): what came back beside rows, to out [T, K].
void put_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots);

}  // namespace hexad::moe
