#include "parallel/tp/regions.h"

#include "parallel/comm/gathered_rows.h"

namespace hexad::tp {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

Tensor copy_of(const Tensor& x, Stream& stream) {
  Tensor copy = Tensor::like(x);
  kernels::kernels(x.device()).pointwise.copy(stream, copy, x);
  return copy;
}

// Sums `x` over the ranks in place. No other tensor may share the memory of `x`.
void sum_over(const ProcessGroup& group, const Tensor& x, Stream& stream) {
  stream.wait(group.all_reduce(x, comm::Reduce::sum, stream));
}

Tensor gathered(const ProcessGroup& group, const Tensor& x, Stream& stream) {
  return comm::all_gather_rows(x, group, stream, Category::temporary);
}

Tensor scattered(const ProcessGroup& group, std::string_view op, const Tensor& x, Stream& stream) {
  Shape shape = x.shape();
  shape[0] = rows_per_rank(op, x.dim(0), group);
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  stream.wait(group.reduce_scatter(out, x, stream));
  return out;
}

// Returns a copy of this rank's rows. A view would keep the rows of all ranks in memory.
Tensor own_rows(const ProcessGroup& group, const Tensor& x, Stream& stream) {
  const int64_t share = rows_per_rank("collect_rows", x.dim(0), group), begin = group.rank() * share;
  return copy_of(x.slice(0, begin, begin + share), stream);
}

}  // namespace

Value enter(Tape& tape, const Value& x, const ProcessGroup& group) {
  if (group.size() == 1) return x;
  return tape.record("enter", x.data, {x}, {}, [&group](Backward& b, const Tensor& dout, const Saved&) {
    const Tensor sum = dout.sole_owner() ? dout : copy_of(dout, b.stream);
    sum_over(group, sum, b.stream);
    b.accumulate(0, sum);
  });
}

Value leave(Tape& tape, const Value& y, const ProcessGroup& group) {
  if (group.size() == 1) return y;
  const Tensor sum = copy_of(y.data, tape.stream);
  sum_over(group, sum, tape.stream);
  return tape.record("leave", sum, {y}, {},
                     [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, dout); });
}

Value gather_rows(Tape& tape, const Value& x, const ProcessGroup& group) {
  if (group.size() == 1) return x;
  return tape.record("gather_rows", gathered(group, x.data, tape.stream), {x}, {},
                     [&group](Backward& b, const Tensor& dout, const Saved&) {
                       b.accumulate(0, scattered(group, "gather_rows", dout, b.stream));
                     });
}

Value scatter_rows(Tape& tape, const Value& y, const ProcessGroup& group) {
  if (group.size() == 1) return y;
  return tape.record(
      "scatter_rows", scattered(group, "scatter_rows", y.data, tape.stream), {y}, {},
      [&group](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, gathered(group, dout, b.stream)); });
}

Value collect_rows(Tape& tape, const Value& x, const ProcessGroup& group) {
  if (group.size() == 1) return x;
  return tape.record(
      "collect_rows", gathered(group, x.data, tape.stream), {x}, {},
      [&group](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, own_rows(group, dout, b.stream)); });
}

}  // namespace hexad::tp
