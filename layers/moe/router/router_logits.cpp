#include "layers/moe/router/router_logits.h"

namespace hexad::moe {

using namespace autograd;
using namespace kernels;
using namespace tensor;

Value router_logits(Tape& tape, const Value& x, Parameter& w, int64_t begin, int64_t end) {
  const auto& k = kernels::kernels(x.device()).matmul;
  const Tensor out = Tensor::empty({x.data.dim(0), w.shape()[0]}, w.dtype(), x.device());
  k.forward(tape.stream, out, x.data, w.use(tape.stream), Write::replace);
  return tape.record(
      "router_logits", out, {x}, save(x.data.slice(0, begin, end)),
      [&k, &w, shape = x.shape(), dtype = x.data.dtype()](Backward& b, const Tensor& dout, const Saved&) {
        b.accumulate(0, shape, dtype, [&](const Tensor& dx, const Tensor& so_far) {
          k.input_gradient(b.stream, dx, dout, w.use(b.stream), add_to(b.stream, dx, so_far));
        });
      },
      {{&w}, [&k, &w, begin, end](Backward& b, const Tensor& dout, const Saved& s) {
         auto [in] = s.get<1>();
         const Tensor& dw = w.gradient();
         k.weight_gradient(b.stream, dw, dout.slice(0, begin, end), in, w.next_write());
       }});
}

Value share_value(Tape& tape, const Value& loss, int ranks) {
  const Tensor out = Tensor::like(loss.data);
  const auto& k = kernels::kernels(loss.device()).pointwise;
  k.copy(tape.stream, out, loss.data);
  k.scale(tape.stream, out, 1.0 / ranks);
  return tape.record("share_value", out, {loss}, {},
                     [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, dout); });
}

}  // namespace hexad::moe
