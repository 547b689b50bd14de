#include "layers/moe/row_weights.h"

namespace hexad::moe {

Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights) {
  const auto& k = kernels::kernels(weights.device()).permute;
  const auto room = [&](const Shape& shape) {
    return Tensor::empty(shape, weights.dtype(), weights.device(), Category::communication);
  };
  const int64_t slots = plan.row_slots.numel(), width = plan.slots_per_row();
  const Tensor by_row = room({plan.slots(), width});
  // A sum of one weight, or of none.
  k.combine(s, by_row.reshape({slots, 1}), weights.reshape({weights.numel(), 1}), plan.row_slots.reshape({slots, 1}),
            {}, {});
  if (!plan.wire_slots.defined()) return by_row;
  const Tensor wire = room({plan.wire_slots.dim(0), width});
  k.gather(s, wire, by_row, plan.wire_slots, {});
  return wire;
}

void put_by_slot(Stream& s, const Tensor& out, const Tensor& numbers, const Tensor& row_slots) {
  const auto& k = kernels::kernels(out.device()).permute;
  // Numbers are rows of one element; where a row has no more slots they go nowhere.
  k.scatter(s, out.reshape({out.numel(), 1}), numbers.reshape({numbers.numel(), 1}),
            row_slots.reshape({row_slots.numel()}));
}

}  // namespace hexad::moe
