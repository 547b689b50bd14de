#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace kernels;

Value linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias) {
  const Shape& ws = w.shape();
  require(ws.rank() >= 2 && x.data.rank() == 2 && x.data.dim(1) == ws[-1] && ws[-1] > 0, "[linear] x is ", x.shape(),
          " but ", w.name(), " is ", ws, "; expected [T, D] and [..., N, D] with D > 0");
  const KernelTable& k = kernels::kernels(x.device());
  Tensor out = Tensor::empty({x.data.dim(0), ws.numel() / ws[-1]}, x.data.dtype(), x.device());
  k.matmul.forward(tape.stream, out, x.data, matrix_of(w.use(tape.stream)), Write::replace);
  std::vector<Parameter*> parameters{&w};
  if (bias) {
    k.bias.forward(tape.stream, out, bias->use(tape.stream).reshape({-1}));
    parameters.push_back(bias);
  }
  return tape.record("linear", out, {x}, save(w.trainable() ? x.data : Tensor{}),
                     [&k, &w, shape = x.shape()](Backward& b, const Tensor& dout, const Saved&) {
                       b.accumulate(0, shape, dout.dtype(), [&](const Tensor& dx, const Tensor& so_far) {
                         k.matmul.input_gradient(b.stream, dx, dout, matrix_of(w.use(b.stream)),
                                                 add_to(b.stream, dx, so_far));
                       });
                     },
                     {parameters, [&k, &w, bias](Backward& b, const Tensor& dout, const Saved& s) {
                        auto [in] = s.get<1>();
                        if (w.trainable()) {
                          const auto [dw, write] = w.next_gradient_target();
                          k.matmul.weight_gradient(b.stream, matrix_of(dw), dout, in, write);
                        }
                        if (bias && bias->trainable())
                          k.bias.backward(b.stream, bias->gradient_to_add(b.stream).reshape({-1}), dout);
                      }});
}

}  // namespace hexad::autograd
