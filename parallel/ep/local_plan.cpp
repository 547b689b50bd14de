#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::ep {

RoutingPlan make_local_plan(const Tensor& ids, int64_t experts, Stream& stream) {
  const int64_t slots = ids.numel();
  const auto index = [&](const Shape& shape) {
    return Tensor::empty(shape, Dtype::i64, ids.device(), Category::communication);
  };
  RoutingPlan plan;
  plan.tokens = plan.wire_tokens = index({slots});
  plan.rows = index(ids.shape());
  Chunk chunk;
  chunk.slots_end = chunk.wire_end = slots;
  chunk.splits = {{slots}, {slots}};
  chunk.shared = {slots};
  chunk.device_offsets = index({experts + 1});
  for (int64_t e = 0; e <= experts; ++e) chunk.offsets.push_back(slots * e / experts);
  kernels::kernels(ids.device()).slots.sort(stream, plan.tokens, plan.rows, chunk.device_offsets, ids);
  plan.chunks.push_back(std::move(chunk));
  return plan;
}

RoutingPlan plan_on(RoutingPlan plan, Device device) {
  if (device.on_host()) return plan;
  const auto move = [&](Tensor& t) { t = on_device(t, device, Category::communication); };
  for (Tensor* t : {&plan.tokens, &plan.rows, &plan.row_slots, &plan.wire_slots, &plan.wire_tokens, &plan.copies})
    move(*t);
  for (Chunk& c : plan.chunks)
    for (Tensor* t : {&c.place, &c.source, &c.entry, &c.reduced}) move(*t);
  return plan;
}

}  // namespace hexad::ep
