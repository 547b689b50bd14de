#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Write add_to(Stream& stream, const Tensor& out, const Tensor& so_far) {
  if (!so_far.defined()) return Write::replace;
  if (so_far.storage() != out.storage()) kernels::kernels(out.device()).pointwise.copy(stream, out, so_far);
  return Write::add;
}

Value add(Tape& tape, const Value& a, const Value& b) {
  require(a.shape() == b.shape() && a.data.dtype() == b.data.dtype(), "[add] a is ", a.shape(), " ", a.data.dtype(),
          ", b ", b.shape(), " ", b.data.dtype(), "; expected the same shape and dtype");
  Tensor out = Tensor::like(a.data);
  kernels::kernels(a.device()).pointwise.add(tape.stream, out, a.data, b.data);
  return tape.record("add", out, {a, b}, {}, [](Backward& back, const Tensor& dout, const Saved&) {
    back.accumulate(0, dout), back.accumulate(1, dout);
  });
}

Value scale(Tape& tape, const Value& x, double alpha) {
  const auto& k = kernels::kernels(x.device()).pointwise;
  const auto scaled = [&k, alpha](Stream& stream, const Tensor& in) {
    Tensor out = Tensor::like(in);
    k.copy(stream, out, in);
    k.scale(stream, out, alpha);
    return out;
  };
  return tape.record(
      "scale", scaled(tape.stream, x.data), {x}, {},
      [scaled](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, scaled(b.stream, dout)); });
}

Value clamp(Tape& tape, const Value& x, double limit) {
  const auto& k = kernels::kernels(x.device()).pointwise;
  Tensor out = Tensor::like(x.data);
  k.clamp(tape.stream, out, x.data, limit);
  return tape.record("clamp", out, {x}, save(x.data), [&k, limit](Backward& b, const Tensor& dout, const Saved& s) {
    auto [in] = s.get<1>();
    Tensor dx = Tensor::like(in);
    k.clamp_backward(b.stream, dx, dout, in, limit);
    b.accumulate(0, dx);
  });
}

Value reshape(Tape& tape, const Value& x, const Shape& shape) {
  return tape.record(
      "reshape", x.data.reshape(shape), {x}, {},
      [from = x.shape()](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, dout.reshape(from)); });
}

}  // namespace hexad::autograd
