#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value gelu(Tape& tape, const Value& x, GeluKind kind) {
  const auto& k = kernels::kernels(x.device()).gelu;
  Tensor out = Tensor::like(x.data);
  k.forward(tape.stream, out, x.data, kind);
  return tape.record("gelu", out, {x}, save(x.data), [&k, kind](Backward& b, const Tensor& dout, const Saved& s) {
    auto [in] = s.get<1>();
    Tensor dx = Tensor::like(in);
    k.backward(b.stream, dx, dout, in, kind);
    b.accumulate(0, dx);
  });
}

}  // namespace hexad::autograd
