#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value gate_rows(Tape& tape, const Value& x, const Value& logits) {
  require(x.data.rank() == 2 && logits.shape() == Shape({x.data.dim(0), 1}) &&
              logits.data.dtype() == accumulator_dtype(x.data.dtype()),
          "[gate_rows] x is ", x.shape(), " ", x.data.dtype(), ", logits ", logits.shape(), " ", logits.data.dtype(),
          "; expected [T, D], [T, 1] and the accumulator type");
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

}  // namespace hexad::autograd
