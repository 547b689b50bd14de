#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value embedding(Tape& tape, Parameter& table, const Tensor& ids) {
  const auto& k = kernels::kernels(ids.device()).embedding;
  Tensor out = Tensor::empty({ids.dim(0), table.shape()[1]}, table.dtype(), ids.device());
  k.forward(tape.stream, out, table.use(tape.stream), ids);
  return tape.record("embedding", out, {}, {}, {},
                     {{&table}, [&k, &table, ids](Backward& b, const Tensor& dout, const Saved&) {
                        k.backward(b.stream, table.gradient_to_add(b.stream), dout, ids);
                      }});
}

}  // namespace hexad::autograd
