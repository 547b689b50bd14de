#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps) {
  require(x.data.dim(-1) == gain.shape()[0], "[rms_norm] x is ", x.shape(), " but ", gain.name(), " is ", gain.shape());
  const auto& k = kernels::kernels(x.device()).rms_norm;
  Tensor out = Tensor::like(x.data);
  const int64_t rows = x.data.numel() / x.data.dim(-1);
  Tensor inverse_rms = Tensor::empty({rows}, accumulator_dtype(x.data.dtype()), x.device());
  k.forward(tape.stream, out, inverse_rms, x.data, gain.use(tape.stream).data, eps);
  Value y = tape.record("rms_norm", out, {x}, save(x.data, inverse_rms),
                        [&k, &gain](Backward& b, const Tensor& dout, const Saved& s) {
                          if (!b.wants(0)) return;
                          auto [in, inverse] = s.get<2>();
                          Tensor dx = Tensor::like(in);
                          k.input_gradient(b.stream, dx, dout, in, gain.use(b.stream).data, inverse);
                          b.accumulate(0, dx);
                        },
                        {{&gain}, [&k, &gain](Backward& b, const Tensor& dout, const Saved& s) {
                           auto [in, inverse] = s.get<2>();
                           k.weight_gradient(b.stream, gain.gradient_to_add(b.stream), dout, in, inverse);
                         }});
  tape.recompute_from_saved(y, [&k, &gain, eps](Stream& stream, const Saved& s) {
    auto [in, inverse] = s.get<2>();
    Tensor again = Tensor::like(in), scratch = Tensor::like(inverse);
    k.forward(stream, again, scratch, in, gain.use(stream).data, eps);
    return again;
  });
  return y;
}

}  // namespace hexad::autograd
