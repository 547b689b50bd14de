#include "layers/moe/pass/row_weights.h"

namespace hexad::moe {

using device::Category;
using namespace base;

Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights) {
  const auto& k = kernels::kernels(weights.device()).permute;
  const auto buffer = [&](const Shape& shape) {
    return Tensor::empty(shape, weights.dtype(), weights.device(), Category::communication);
  };
  const int64_t slots = plan.indices.row_slots.numel(), width = plan.counts.slots_per_row;
  const Tensor by_row = buffer({plan.counts.slots(), width});
  // A sum of one weight, or of none.
  k.combine(s, by_row.reshape({slots, 1}), weights.reshape({weights.numel(), 1}),
            plan.indices.row_slots.reshape({slots, 1}), {}, {});
  if (!plan.indices.wire_slots.defined()) return by_row;
  const Tensor wire = buffer({plan.indices.wire_slots.dim(0), width});
  k.gather(s, wire, by_row, plan.indices.wire_slots, {});
  return wire;
}

void put_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots) {
  const auto& k = kernels::kernels(out.device()).permute;
  // Rows of one element; where a row has no more slots they go nowhere.
  k.scatter(s, out.reshape({out.numel(), 1}), row_weights.reshape({row_weights.numel(), 1}),
            row_slots.reshape({row_slots.numel()}));
}

}  // namespace hexad::moe
