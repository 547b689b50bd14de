#include "layers/moe/routes/row_format.h"

#include "framework/kernels/kernel_table.h"

namespace hexad::moe {

using namespace base;
namespace {

Tensor gathered(Stream& s, const Tensor& from, const Tensor& index, const Tensor& inverse = {}) {
  if (!from.defined() || !index.defined()) return from;
  const Tensor out = Tensor::empty({index.dim(0), from.dim(1)}, from.dtype(), from.device(), Category::communication);
  kernels_of(from).permute.gather(s, out, from, index, inverse);
  return out;
}

const kernels::WireKernels& wire_kernels(const RowFormat& format, const Tensor& sent) {
  return format.kernels ? *format.kernels : kernels_of(sent).wire;
}

void scattered(Stream& s, const Tensor& out, const Tensor& rows, const Tensor& index) {
  if (index.defined())
    kernels_of(out).permute.scatter(s, out, rows, index);
  else
    kernels_of(out).pointwise.copy(s, out, rows);
}

}  // namespace

Tensor RowFormat::gather_packed(Stream& s, const RowSource& source) const {
  if (plain()) return gathered(s, source.values, source.index, source.inverse);
  const int64_t count = source.index.defined() ? source.index.dim(0) : source.values.dim(0);
  const Tensor bytes = packed_buffer(count, source.values.device());
  wire_kernels(*this, bytes).pack(s, bytes, source.values, source.index, source.row_weights, wire);
  return bytes;
}

void RowFormat::scatter_unpacked(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const {
  if (plain()) return scattered(s, out.values, sent, index);
  if (!out.row_weights.defined() || !index.defined())
    return wire_kernels(*this, sent).unpack(s, out.values, out.row_weights, sent, index, wire);
  // First unpacks the row weights in the order of the sent rows, then scatters them.
  const Tensor as_sent = Tensor::empty({sent.dim(0), row_weights}, out.row_weights.dtype(), sent.device());
  wire_kernels(*this, sent).unpack(s, out.values, as_sent, sent, index, wire);
  scattered(s, out.row_weights, as_sent, index);
}

Tensor RowFormat::packed_buffer(int64_t count, Device device) const {
  return plain() ? Tensor::empty({count, width}, dtype, device, Category::communication)
                 : Tensor::empty({count, row_bytes()}, Dtype::u8, device, Category::communication);
}

Rows RowFormat::buffer(int64_t count, Device device, Category category) const {
  Rows rows{Tensor::empty({count, width}, dtype, device, category)};
  if (row_weights > 0)
    rows.row_weights = Tensor::empty({count, row_weights}, accumulator_dtype(dtype), device, category);
  return rows;
}

Rows part_of(const Rows& rows, int64_t begin, int64_t end) {
  const auto part = [&](const Tensor& t) { return t.defined() ? t.slice(0, begin, end) : t; };
  return {part(rows.values), part(rows.row_weights)};
}

Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index) {
  return {gathered(s, rows.values, index), gathered(s, rows.row_weights, index)};
}

}  // namespace hexad::moe
