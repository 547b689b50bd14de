#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value layer_norm(Tape& tape, const Value& x, Parameter& gain, Parameter* bias, double eps) {
  require(x.data.dim(-1) == gain.shape()[0] && x.data.dim(-1) > 0, "[layer_norm] x is ", x.shape(), " but ",
          gain.name(), " is ", gain.shape(), "; expected [..., D] and [D] with D > 0");
  const auto& k = kernels::kernels(x.device()).layer_norm;
  const auto bias_data = [bias](Stream& s) { return bias ? bias->use(s) : Tensor{}; };
  Tensor out = Tensor::like(x.data);
  const int64_t rows = x.data.numel() / x.data.dim(-1);
  Tensor stats = Tensor::empty({rows, 2}, accumulator_dtype(x.data.dtype()), x.device());
  k.forward(tape.stream, out, stats, x.data, gain.use(tape.stream), bias_data(tape.stream), eps);
  std::vector<Parameter*> parameters{&gain};
  if (bias) parameters.push_back(bias);
  Value y = tape.record("layer_norm", out, {x}, save(x.data, stats),
                        [&k, &gain](Backward& b, const Tensor& dout, const Saved& s) {
                          if (!b.wants(0)) return;
                          auto [in, st] = s.get<2>();
                          Tensor dx = Tensor::like(in);
                          k.input_gradient(b.stream, dx, dout, in, gain.use(b.stream), st);
                          b.accumulate(0, dx);
                        },
                        {parameters, [&k, &gain, bias](Backward& b, const Tensor& dout, const Saved& s) {
                           auto [in, st] = s.get<2>();
                           // The kernel computes the gradients of gain and bias. The gradient of a frozen parameter is
                           // not read.
                           const Tensor dbias = bias ? bias->gradient_to_add(b.stream) : Tensor{};
                           k.weight_gradient(b.stream, gain.gradient_to_add(b.stream), dbias, dout, in, st);
                         }});
  tape.recompute_from_saved(y, [&k, &gain, bias_data, eps](Stream& stream, const Saved& s) {
    auto [in, st] = s.get<2>();
    Tensor again = Tensor::like(in), scratch = Tensor::like(st);
    k.forward(stream, again, scratch, in, gain.use(stream), bias_data(stream), eps);
    return again;
  });
  return y;
}

}  // namespace hexad::autograd
