#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value gather(Tape& tape, const Value& x, const Tensor& tokens, const Tensor& rows) {
  const auto& k = kernels::kernels(x.device()).permute;
  Tensor out = Tensor::empty({tokens.dim(0), x.data.dim(1)}, x.data.dtype(), x.device());
  k.gather(tape.stream, out, x.data, tokens, rows);
  return tape.record("gather", out, {x}, {},
                     [&k, rows, shape = x.shape()](Backward& b, const Tensor& dout, const Saved&) {
                       Tensor dx = Tensor::empty(shape, dout.dtype(), dout.device());
                       k.combine(b.stream, dx, dout, rows, {}, {});
                       b.accumulate(0, dx);
                     });
}

Value combine(Tape& tape, const Value& y, const Value& weights, const Tensor& rows) {
  const auto& k = kernels::kernels(y.device()).permute;
  Tensor out = Tensor::empty({rows.dim(0), y.data.dim(1)}, y.data.dtype(), y.device());
  k.combine(tape.stream, out, y.data, rows, weights.data, {});
  return tape.record("combine", out, {y, weights}, save(y.data, weights.data),
                     [&k, rows](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [y_, w_] = s.get<2>();
                       Tensor dy = Tensor::like(y_), dw = Tensor::like(w_);
                       k.combine_backward(b.stream, dy, dw, dout, y_, rows, w_);
                       b.accumulate(0, dy), b.accumulate(1, dw);
                     });
}

}  // namespace hexad::autograd
