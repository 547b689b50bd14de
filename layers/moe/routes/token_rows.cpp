#include "layers/moe/routes/token_rows.h"

#include "framework/kernels/kernel_table.h"

namespace hexad::moe {

using namespace base;

void copy_to_groups(Stream& s, const Rows& arrived, const ep::ChunkIndices& chunk, const Rows& grouped) {
  const auto copy = [&](const Tensor& out, const Tensor& rows, const Tensor& index) {
    if (chunk.place.defined())
      kernels_of(out).permute.scatter(s, out, gather_rows_by(s, {rows}, index).values, chunk.place);
    else
      kernels_of(out).permute.gather(s, out, rows, index, {});
  };
  copy(grouped.values, arrived.values, chunk.source);
  if (!grouped.row_weights.defined()) return;
  const int64_t width = grouped.row_weights.dim(1);
  copy(grouped.row_weights, arrived.row_weights.reshape({arrived.row_weights.numel() / width, width}), chunk.entry);
}

Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights) {
  const auto& k = kernels_of(results.values);
  const int64_t rows = chunk.reduced.dim(0), slots = chunk.reduced.dim(1);
  const auto buffer = [&](int64_t count, const Tensor& like) {
    return Tensor::empty({count, like.dim(1)}, like.dtype(), like.device(), Category::communication);
  };
  Rows sums{buffer(rows, results.values)};
  // `weights` are in the order of the arrived rows. Joined rows return in a different order.
  const Tensor of_rows = weights.defined() ? gather_rows_by(s, {weights}, chunk.returned).values : weights;
  k.permute.combine(s, sums.values, results.values, chunk.reduced, of_rows, {});
  if (!results.row_weights.defined()) return sums;
  const Tensor row_weights = buffer(rows * slots, results.row_weights);
  // Uses the kernel `combine` as a copy, like wire_weights().
  k.permute.combine(s, row_weights, results.row_weights, chunk.reduced.reshape({rows * slots, 1}), {}, {});
  sums.row_weights = row_weights.reshape({rows, slots * row_weights.dim(1)});
  return sums;
}

Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights) {
  const auto& k = kernels_of(weights).permute;
  const auto buffer = [&](const Shape& shape) {
    return Tensor::empty(shape, weights.dtype(), weights.device(), Category::communication);
  };
  const int64_t slots = plan.indices.row_slots.numel(), width = plan.counts.slots_per_row;
  const Tensor by_row = buffer({plan.counts.slots(), width});
  // Uses the kernel `combine` as a copy: each entry is the weight of one slot, or 0 (index -1) if the row has fewer
  // slots.
  k.combine(s, by_row.reshape({slots, 1}), weights.reshape({weights.numel(), 1}),
            plan.indices.row_slots.reshape({slots, 1}), {}, {});
  if (!plan.indices.wire_slots.defined()) return by_row;
  const Tensor wire = buffer({plan.indices.wire_slots.dim(0), width});
  k.gather(s, wire, by_row, plan.indices.wire_slots, {});
  return wire;
}

void scatter_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots) {
  const auto& k = kernels_of(out).permute;
  // Scatters rows of one element each. Entries for missing slots have index -1 and are skipped.
  k.scatter(s, out.reshape({out.numel(), 1}), row_weights.reshape({row_weights.numel(), 1}),
            row_slots.reshape({row_slots.numel()}));
}

}  // namespace hexad::moe
