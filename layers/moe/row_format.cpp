#include "layers/moe/row_format.h"

namespace hexad::moe {
namespace {

const kernels::KernelTable& table(const Tensor& t) { return kernels::kernels(t.device()); }

Tensor gathered(Stream& s, const Tensor& from, const Tensor& index) {
  if (!from.defined() || !index.defined()) return from;
  const Tensor out = Tensor::empty({index.dim(0), from.dim(1)}, from.dtype(), from.device(), Category::communication);
  table(from).permute.gather(s, out, from, index);
  return out;
}

void scattered(Stream& s, const Tensor& out, const Tensor& rows, const Tensor& index) {
  if (index.defined())
    table(out).permute.scatter(s, out, rows, index);
  else
    table(out).pointwise.copy(s, out, rows);
}

}  // namespace

Tensor RowFormat::pack(Stream& s, const RowSource& source) const {
  if (plain()) return gathered(s, source.values, source.index);
  const int64_t count = source.index.defined() ? source.index.dim(0) : source.values.dim(0);
  const Tensor bytes = Tensor::empty({count, row_bytes()}, Dtype::u8, source.values.device(), Category::communication);
  table(bytes).wire.pack(s, bytes, source.values, source.index, source.extras, wire);
  return bytes;
}

void RowFormat::unpack(Stream& s, const Tensor& sent, const Tensor& index, const Rows& out) const {
  if (plain()) return scattered(s, out.values, sent, index);
  if (!out.extras.defined() || !index.defined())
    return table(sent).wire.unpack(s, out.values, out.extras, sent, index, wire);
  // Extras come in the order of the rows sent.
  const Tensor numbers = Tensor::empty({sent.dim(0), extras}, out.extras.dtype(), sent.device());
  table(sent).wire.unpack(s, out.values, numbers, sent, index, wire);
  scattered(s, out.extras, numbers, index);
}

Rows RowFormat::room(int64_t count, Device device, Category category) const {
  Rows rows{Tensor::empty({count, width}, dtype, device, category)};
  if (extras > 0) rows.extras = Tensor::empty({count, extras}, accumulator_dtype(dtype), device, category);
  return rows;
}

Rows gather_rows_by(Stream& s, const Rows& rows, const Tensor& index) {
  return {gathered(s, rows.values, index), gathered(s, rows.extras, index)};
}

}  // namespace hexad::moe
