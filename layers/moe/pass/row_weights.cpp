#include "layers/moe/pass/row_weights.h"

namespace hexad::moe {

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
  s.run([=] {
    with_dtype<float, double>("put_by_slot", out.dtype(), [&]<class T>() {
      for (int64_t i = 0; i < row_slots.numel(); ++i)
        if (const int64_t slot = row_slots.data<int64_t>()[i]; slot >= 0)
          out.data<T>()[slot] = row_weights.data<T>()[i];
    });
  });
}

}  // namespace hexad::moe
