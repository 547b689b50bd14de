#include "layers/moe/pass/row_format.h"

namespace hexad::moe {

using namespace base;
namespace {

const kernels::KernelTable& table(const Tensor& t) { return kernels::kernels(t.device()); }

Tensor gathered(Stream& s, const Tensor& from, const Tensor& index, const Tensor& inverse = {}) {
  if (!from.defined() || !index.defined()) return from;
  const Tensor out = Tensor::empty({index.dim(0), from.dim(1)}, from.dtype(), from.device(), Category::communication);
  table(from).permute.gather(s, out, from, index, inverse);
  return out;
}

const kernels::WireKernels& wire_kernels(const RowFormat& format, const Tensor& sent) {
  return format.kernels ? *format.kernels : table(sent).wire;
}

void scattered(Stream& s, const Tensor& out, const Tensor& rows, const Tensor& index) {
  if (index.defined())
    table(out).permute.scatter(s, out, rows, index);
  else
    table(out).pointwise.copy(s, out, rows);
}

}  // namespace

Tensor RowFormat::pack(Stream& s, const RowSource& source) const {
  if (plain()) return gathered(s, source.values, source.index, source.inverse);
  const int64_t count = source.index.defined() ? source.index.dim(0) : source.values.dim(0);
  const Tensor bytes = Tensor::empty({count, row_bytes()}, Dtype::u8, source.values.device(), Category::communication);
  wire_kernels(*this, bytes).pack(s, bytes, source.values, source.index, source.row_weights, wire);
  return bytes;
}

void RowFormat::unpack(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const {
  if (plain()) return scattered(s, out.values, sent, index);
  if (!out.row_weights.defined() || !index.defined())
    return wire_kernels(*this, sent).unpack(s, out.values, out.row_weights, sent, index, wire);
  // Row weights come in the order of the rows sent.
  const Tensor as_sent = Tensor::empty({sent.dim(0), row_weights}, out.row_weights.dtype(), sent.device());
  wire_kernels(*this, sent).unpack(s, out.values, as_sent, sent, index, wire);
  scattered(s, out.row_weights, as_sent, index);
}

Rows RowFormat::buffer(int64_t count, Device device, Category category) const {
  Rows rows{Tensor::empty({count, width}, dtype, device, category)};
  if (row_weights > 0)
    rows.row_weights = Tensor::empty({count, row_weights}, accumulator_dtype(dtype), device, category);
  return rows;
}

Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index) {
  return {gathered(s, rows.values, index), gathered(s, rows.row_weights, index)};
}

Tensor copy_to_groups(Stream& s, const RowFormat& format, const Tensor& sent, const ep::ChunkIndices& chunk,
                      const Rows& grouped) {
  Rows there{sent};
  if (!format.plain()) {
    there = format.buffer(sent.dim(0), sent.device());
    format.unpack(s, sent, {}, there);
  }
  const auto copy = [&](const Tensor& out, const Tensor& rows, const Tensor& index) {
    if (chunk.place.defined())
      scattered(s, out, gathered(s, rows, index), chunk.place);
    else
      table(out).permute.gather(s, out, rows, index, {});
  };
  copy(grouped.values, there.values, chunk.source);
  if (grouped.row_weights.defined())
    copy(grouped.row_weights, there.row_weights.reshape({chunk.reduced.numel(), grouped.row_weights.dim(1)}),
         chunk.entry);
  return there.row_weights;
}

Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights) {
  const auto& k = table(results.values);
  const int64_t rows = chunk.reduced.dim(0), slots = chunk.reduced.dim(1);
  const auto buffer = [&](int64_t count, const Tensor& like) {
    return Tensor::empty({count, like.dim(1)}, like.dtype(), like.device(), Category::communication);
  };
  Rows sums{buffer(rows, results.values)};
  k.permute.combine(s, sums.values, results.values, chunk.reduced, weights, {});
  if (!results.row_weights.defined()) return sums;
  const Tensor row_weights = buffer(rows * slots, results.row_weights);
  k.pointwise.fill(s, row_weights, 0);
  k.permute.scatter(s, row_weights, gathered(s, results.row_weights, chunk.place), chunk.entry);
  sums.row_weights = row_weights.reshape({rows, slots * row_weights.dim(1)});
  return sums;
}

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

void scatter_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots) {
  const auto& k = kernels::kernels(out.device()).permute;
  // Rows of one element; where a row has no more slots they go nowhere.
  k.scatter(s, out.reshape({out.numel(), 1}), row_weights.reshape({row_weights.numel(), 1}),
            row_slots.reshape({row_slots.numel()}));
}

}  // namespace hexad::moe
