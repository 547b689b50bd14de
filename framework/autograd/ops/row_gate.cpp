#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value gate_rows(Tape& tape, const Value& x, const Value& logits) {
  require(x.data.rank() == 2 && logits.shape() == Shape({x.data.dim(0), 1}) &&
              logits.data.dtype() == accumulator_dtype(x.data.dtype()),
          "[gate_rows] x is ", x.shape(), " ", x.data.dtype(), ", logits ", logits.shape(), " ", logits.data.dtype(),
          "; expected [T, D], and [T, 1] ", accumulator_dtype(x.data.dtype()));
  const auto& k = kernels::kernels(x.device()).row_gate;
  const Tensor out = Tensor::like(x.data);
  k.forward(tape.stream, out, x.data, logits.data);
  return tape.record("gate_rows", out, {x, logits}, save(x.data, logits.data),
                     [&k](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [in, gates] = s.get<2>();
                       const Tensor dx = Tensor::like(in), dlogits = Tensor::like(gates);
                       k.backward(b.stream, dx, dlogits, dout, in, gates);
                       b.accumulate(0, dx), b.accumulate(1, dlogits);
                     });
}

Value scale_rows(Tape& tape, const Value& x, const Value& factors) {
  const int64_t rows = x.data.dim(0);
  require(x.data.rank() == 2 && factors.shape() == Shape({rows, 1}) &&
              factors.data.dtype() == accumulator_dtype(x.data.dtype()),
          "[scale_rows] x is ", x.shape(), " ", x.data.dtype(), ", factors ", factors.shape(), " ",
          factors.data.dtype(), "; expected [T, D], and [T, 1] ", accumulator_dtype(x.data.dtype()));
  const auto& k = kernels::kernels(x.device());
  const Tensor own = Tensor::empty({rows}, Dtype::i64, x.device()), out = Tensor::like(x.data);
  k.slots.iota(tape.stream, own, 0);
  k.permute.gather_weighted(tape.stream, out, x.data, own, factors.data.reshape({rows}));
  return tape.record("scale_rows", out, {x, factors}, save(x.data, factors.data, own),
                     [&k, rows](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [in, scales, index] = s.get<3>();
                       const Tensor dx = Tensor::like(in), dfactors = Tensor::like(scales);
                       k.permute.gather_weighted(b.stream, dx, dout, index, scales.reshape({rows}));
                       k.permute.row_dots(b.stream, dfactors.reshape({rows}), dout, in);
                       b.accumulate(0, dx), b.accumulate(1, dfactors);
                     });
}

namespace {

// Returns `t` as a column [n, 1] in the accumulator dtype, the shape and dtype that RowGateKernels expects of logits.
Tensor column_of(Stream& stream, const Tensor& t) {
  const Dtype dtype = accumulator_dtype(t.dtype());
  if (t.dtype() == dtype) return t.reshape({t.numel(), 1});
  const Tensor column = Tensor::empty({t.numel(), 1}, dtype, t.device());
  kernels::kernels(t.device()).pointwise.copy(stream, column, t.reshape({t.numel(), 1}));
  return column;
}

}  // namespace

// Uses the kernels of row gates, with each element as a row.
Value gate_elements(Tape& tape, const Value& x, const Value& logits) {
  require(x.shape() == logits.shape() && x.data.dtype() == logits.data.dtype(), "[gate_elements] x is ", x.shape(), " ",
          x.data.dtype(), ", logits ", logits.shape(), " ", logits.data.dtype(), "; expected the same shape and dtype");
  const kernels::KernelTable& k = kernels::kernels(x.device());
  const Tensor out = Tensor::like(x.data);
  const int64_t count = x.data.numel();
  k.row_gate.forward(tape.stream, out.reshape({count, 1}), x.data.reshape({count, 1}),
                     column_of(tape.stream, logits.data));
  return tape.record("gate_elements", out, {x, logits}, save(x.data, logits.data),
                     [&k, count](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [in, gates] = s.get<2>();
                       const Tensor column = column_of(b.stream, gates);
                       const Tensor dx = Tensor::like(in), dcolumn = Tensor::like(column), dgates = Tensor::like(gates);
                       k.row_gate.backward(b.stream, dx.reshape({count, 1}), dcolumn, dout.reshape({count, 1}),
                                           in.reshape({count, 1}), column);
                       k.pointwise.copy(b.stream, dgates.reshape({count, 1}), dcolumn);
                       b.accumulate(0, dx), b.accumulate(1, dgates);
                     });
}

}  // namespace hexad::autograd
