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

Value swiglu(Tape& tape, const Value& gate_up) {
  require(gate_up.data.rank() == 2 && gate_up.data.dim(1) % 2 == 0, "[swiglu] gate and up are ", gate_up.shape());
  struct Halves {
    Tensor gate, up;
  };
  const auto halves = [](const Tensor& t) {
    const int64_t width = t.dim(1) / 2;
    return Halves{t.slice(1, 0, width), t.slice(1, width, 2 * width)};
  };
  const auto& k = kernels::kernels(gate_up.device()).swiglu;
  const Tensor out =
      Tensor::empty({gate_up.data.dim(0), gate_up.data.dim(1) / 2}, gate_up.data.dtype(), gate_up.device());
  const auto [gate, up] = halves(gate_up.data);
  k.forward(tape.stream, out, gate, up, {});
  return tape.record("swiglu", out, {gate_up}, save(gate_up.data),
                     [&k, halves](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [both] = s.get<1>();
                       const Tensor dboth = Tensor::like(both);
                       const auto [g, u] = halves(both);
                       const auto [dg, du] = halves(dboth);
                       k.backward(b.stream, dg, du, {}, {}, dout, g, u, {});
                       b.accumulate(0, dboth);
                     });
}

}  // namespace hexad::autograd
