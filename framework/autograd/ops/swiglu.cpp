#include "framework/autograd/ops/ops.h"
#include "framework/kernels/gate_and_up.h"

namespace hexad::autograd {

using namespace kernels;

namespace {

Value clamped_swiglu(Tape& tape, const Value& gate_up, double limit) {
  const auto& k = kernels::kernels(gate_up.device()).clamped_swiglu;
  const auto [gate, up] = gate_and_up(gate_up.data);
  const Tensor out = Tensor::empty(gate.shape(), gate.dtype(), gate.device());
  k.forward(tape.stream, out, gate, up, {}, limit);
  return tape.record("clamped_swiglu", out, {gate_up}, save(gate_up.data),
                     [&k, limit](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [both] = s.get<1>();
                       const Tensor dboth = Tensor::like(both);
                       const auto [g, u] = gate_and_up(both);
                       const auto [dg, du] = gate_and_up(dboth);
                       k.backward(b.stream, {dg, du}, dout, {g, u}, limit);
                       b.accumulate(0, dboth);
                     });
}

}  // namespace

Value swiglu(Tape& tape, const Value& gate_up, std::optional<double> limit) {
  require(gate_up.data.rank() == 2 && gate_up.data.dim(1) % 2 == 0, "[swiglu] gate and up are ", gate_up.shape(),
          "; expected [T, 2 F]");
  if (limit) return clamped_swiglu(tape, gate_up, *limit);
  const auto& k = kernels::kernels(gate_up.device()).swiglu;
  const auto [gate, up] = gate_and_up(gate_up.data);
  const Tensor out = Tensor::empty(gate.shape(), gate.dtype(), gate.device());
  k.forward(tape.stream, out, gate, up, {});
  return tape.record("swiglu", out, {gate_up}, save(gate_up.data),
                     [&k](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [both] = s.get<1>();
                       const Tensor dboth = Tensor::like(both);
                       const auto [g, u] = gate_and_up(both);
                       const auto [dg, du] = gate_and_up(dboth);
                       k.backward(b.stream, {dg, du}, dout, {g, u});
                       b.accumulate(0, dboth);
                     });
}

Value silu_gate(Tape& tape, const Value& gate, const Value& x) {
  require(gate.shape() == x.shape() && gate.data.dtype() == x.data.dtype(), "[silu_gate] gate is ", gate.shape(), " ",
          gate.data.dtype(), ", x ", x.shape(), " ", x.data.dtype(), "; expected the same shape and dtype");
  const auto& k = kernels::kernels(x.device()).swiglu;
  const Tensor out = Tensor::like(x.data);
  k.forward(tape.stream, out, gate.data, x.data, {});
  return tape.record("silu_gate", out, {gate, x}, save(gate.data, x.data),
                     [&k](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [g, in] = s.get<2>();
                       const Tensor dg = Tensor::like(g), dx = Tensor::like(in);
                       k.backward(b.stream, {dg, dx}, dout, {g, in});
                       b.accumulate(0, dg), b.accumulate(1, dx);
                     });
}

}  // namespace hexad::autograd
