#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::ep {

using device::Category;
using namespace base;

RoutingPlan make_local_routing_plan(const Tensor& ids, int64_t experts, Stream& stream) {
  const int64_t slots = ids.numel();
  const auto index = [&](const Shape& shape) {
    return Tensor::empty(shape, Dtype::i64, ids.device(), Category::communication);
  };
  RoutingIndices indices;
  indices.wire_tokens = index({slots});
  indices.rows = index(ids.shape());
  indices.chunks.resize(1);
  indices.chunks.front().offsets = index({experts + 1});
  ChunkCounts chunk;
  chunk.slots_end = chunk.wire_end = chunk.rows_in_chunk = slots;
  chunk.splits = {{slots}, {slots}};
  chunk.shared = {slots};
  for (int64_t e = 0; e <= experts; ++e) chunk.offsets.push_back(slots * e / experts);
  kernels::kernels(ids.device())
      .slots.sort(stream, indices.wire_tokens, indices.rows, indices.chunks.front().offsets, ids);
  RoutingPlan plan;
  plan.counts.chunks.push_back(std::move(chunk));
  plan.indices = std::move(indices);
  return plan;
}

}  // namespace hexad::ep
