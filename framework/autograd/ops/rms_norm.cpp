#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;
using namespace kernels;

Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps) {
  require(x.data.dim(-1) == gain.shape()[0], "[rms_norm] x is ", x.shape(), " but ", gain.name(), " is ", gain.shape());
  const KernelTable& k = kernels::kernels(x.device());
  Tensor out = Tensor::like(x.data);
  const int64_t width = x.data.dim(-1), rows = x.data.numel() / width;
  const Dtype acc = accumulator_dtype(x.data.dtype());
  Tensor inverse_rms = Tensor::empty({rows}, acc, x.device());
  k.rms_norm.forward(tape.stream, out, {}, inverse_rms, x.data, {}, gain.use(tape.stream), eps);
  // One pass over x and dout gives both gradients. The gain's gradient stays in partial sums until the weight task
  // runs.
  Value y = tape.record("rms_norm", out, {x}, save(x.data, inverse_rms),
                        [&k, &gain, rows, width, acc](Backward& b, const Tensor& dout, const Saved& s) {
                          const auto [in, inverse] = s.get<2>();
                          const Tensor g = gain.use(b.stream), in_ = in, inverse_ = inverse,
                                       partials = Tensor::empty({k.rms_norm.partials(rows), width}, acc, in.device());
                          const auto differentiate = [&](const Tensor& dx, const Tensor& so_far) {
                            k.rms_norm.backward(b.stream, dx, partials, dout, in_, g, inverse_, so_far);
                          };
                          if (b.wants(0))
                            b.accumulate(0, in.shape(), in.dtype(), differentiate);
                          else
                            differentiate({}, {});
                          b.hand_to_weights(partials);
                        },
                        {{&gain}, [&k, &gain](Backward& b, const Tensor&, const Saved&) {
                           const auto partials = b.take_from_pullback<Tensor>();
                           k.bias.backward(b.stream, gain.gradient_to_add(b.stream), partials);
                         }});
  tape.recompute_from_saved(y, [&k, &gain, eps](Stream& stream, const Saved& s) {
    auto [in, inverse] = s.get<2>();
    Tensor again = Tensor::like(in), scratch = Tensor::like(inverse);
    k.rms_norm.forward(stream, again, {}, scratch, in, {}, gain.use(stream), eps);
    return again;
  });
  return y;
}

}  // namespace hexad::autograd
