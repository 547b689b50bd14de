#include "framework/base/counted.h"
#include "framework/kernels/kernel_table.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::ep {

using device::Category;
using namespace base;

RoutingPlan make_local_routing_plan(const Tensor& ids, int64_t experts, int chunks, Stream& stream) {
  require(chunks >= 1, "[ep] a local routing plan has ", counted(chunks, "chunk"), "; expected at least 1");
  const int64_t tokens = ids.dim(0), top_k = ids.dim(1), slots = ids.numel();
  const auto& k = kernels::kernels(ids.device());
  const auto index = [&](const Shape& shape) {
    return Tensor::empty(shape, Dtype::i64, ids.device(), Category::communication);
  };
  RoutingPlan plan;
  RoutingIndices& indices = plan.indices;
  indices.wire_tokens = index({slots});
  indices.rows = index(ids.shape());
  const Chunking chunking{Chunking::By::tokens, chunks};
  int64_t end = 0;
  for (int c = 0; c < chunks; ++c) {
    const int64_t begin = end;
    while (end < tokens && chunking.chunk(end, tokens, 0, 1, 0, 1) == c) ++end;
    ChunkCounts chunk;
    chunk.slots_begin = chunk.wire_begin = begin * top_k;
    chunk.slots_end = chunk.wire_end = end * top_k;
    chunk.rows_in_chunk = chunk.slots();
    chunk.splits = {{chunk.slots()}, {chunk.slots()}};
    chunk.shared = {chunk.slots()};
    for (int64_t e = 0; e <= experts; ++e) chunk.offsets.push_back(chunk.slots() * e / experts);
    const Tensor wire_tokens = chunk.part_of(indices.wire_tokens), rows = indices.rows.slice(0, begin, end);
    ChunkIndices& sorted = indices.chunks.emplace_back();
    sorted.offsets = index({experts + 1});
    k.slots.sort(stream, wire_tokens, rows, sorted.offsets, ids.slice(0, begin, end));
    if (begin > 0) {  // the sort counts tokens and rows from the beginning of the chunk
      k.index.shift(stream, wire_tokens, wire_tokens, begin);
      k.index.shift(stream, rows, rows, chunk.slots_begin);
    }
    plan.counts.chunks.push_back(std::move(chunk));
  }
  return plan;
}

}  // namespace hexad::ep
