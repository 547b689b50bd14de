#include "parallel/cp/sequence_rows.h"

#include "framework/kernels/kernel_table.h"

namespace hexad::cp {

using device::Category;
using namespace base;

namespace {

// Calls copy(rows, tokens) for each run of rows that contain consecutive tokens. The arguments are slices of the two
// tensors.
template <class Copy>
void for_each_run(const Tensor& rows, const Tensor& tokens, const ContextSplit& split, const Copy& copy) {
  const int64_t count = split.piece_length();
  for (int r = 0; r < split.ranks; ++r)
    for (const auto& run : split.runs(r)) {
      const int64_t row = r * split.rows() + run.row;
      copy(rows.slice(0, row, row + count), tokens.slice(0, run.token, run.token + count));
    }
}

}  // namespace

Tensor in_sequence_order(const Tensor& rows, const ContextSplit& split, Stream& stream) {
  Tensor tokens = Tensor::like(rows);
  const auto& copy = kernels::kernels(rows.device()).pointwise.copy;
  for_each_run(rows, tokens, split, [&](const Tensor& from, const Tensor& to) { copy(stream, to, from); });
  return tokens;
}

Tensor in_rank_order(const Tensor& tokens, const ContextSplit& split, Stream& stream) {
  Tensor rows = Tensor::like(tokens);
  const auto& copy = kernels::kernels(tokens.device()).pointwise.copy;
  for_each_run(rows, tokens, split, [&](const Tensor& to, const Tensor& from) { copy(stream, to, from); });
  return rows;
}

Tensor contiguous_as(const Tensor& t, Dtype dtype, Stream& stream) {
  if (t.contiguous() && t.dtype() == dtype) return t;
  Tensor copy = Tensor::empty(t.shape(), dtype, t.device());
  kernels::kernels(t.device()).pointwise.copy(stream, copy, t);
  return copy;
}

InFlight gather_rows(const Tensor& rows, const comm::ProcessGroup& group, Stream& stream) {
  Shape shape = rows.shape();
  shape[0] *= group.size();
  const Tensor all = Tensor::empty(shape, rows.dtype(), rows.device(), Category::communication);
  return {all, group.all_gather(all, contiguous_as(rows, rows.dtype(), stream), stream)};
}

}  // namespace hexad::cp
