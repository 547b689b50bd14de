#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value swiglu(Tape& tape, const Value& gate, const Value& up) {
  require(gate.shape() == up.shape(), "[swiglu] gate is ", gate.shape(), " but up is ", up.shape());
  const auto& k = kernels::kernels(gate.device()).swiglu;
  Tensor out = Tensor::like(gate.data);
  k.forward(tape.stream, out, gate.data, up.data, {});
  return tape.record("swiglu", out, {gate, up}, save(gate.data, up.data),
                     [&k](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [g, u] = s.get<2>();
                       Tensor dg = Tensor::like(g), du = Tensor::like(u);
                       k.backward(b.stream, dg, du, {}, {}, dout, g, u, {});
                       b.accumulate(0, dg), b.accumulate(1, du);
                     });
}

}  // namespace hexad::autograd
