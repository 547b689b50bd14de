#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

Value grouped_linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias, std::vector<int64_t> offsets,
                     BiasRole role) {
  const Shape& ws = w.shape();
  require(ws.rank() == 3 && x.data.rank() == 2 && x.data.dim(1) == ws[2], "[grouped_linear] x is ", x.shape(), " but ",
          w.name(), " is ", ws);
  require(static_cast<int64_t>(offsets.size()) == ws[0] + 1 && offsets.front() == 0 && offsets.back() == x.data.dim(0),
          "[grouped_linear] ", offsets.size(), " offsets up to ", offsets.empty() ? 0 : offsets.back(), " for ", ws[0],
          " experts and ", x.data.dim(0), " rows");
  const KernelTable& k = kernels::kernels(x.device());
  Tensor out = Tensor::empty({x.data.dim(0), ws[1]}, x.data.dtype(), x.device());
  const auto groups = [](const std::vector<int64_t>& o) { return GroupOffsets::on_host(o); };
  k.grouped_matmul.forward(tape.stream, out, x.data, w.use(tape.stream), groups(offsets), Write::replace);
  std::vector<Parameter*> parameters{&w};
  if (bias) {
    const Weight values = bias->use(tape.stream);
    if (role == BiasRole::added) k.bias.grouped_forward(tape.stream, out, values.data, groups(offsets));
    parameters.push_back(bias);
  }
  return tape.record(
      "grouped_linear", out, {x}, save(x.data),
      [&k, &w, groups, shape = x.shape(), offsets](Backward& b, const Tensor& dout, const Saved&) {
        if (!b.wants(0)) return;
        Tensor dx = Tensor::empty(shape, dout.dtype(), dout.device());
        k.grouped_matmul.input_gradient(b.stream, dx, dout, w.use(b.stream), groups(offsets), Write::replace);
        b.accumulate(0, dx);
      },
      {parameters, [&k, &w, groups, bias, role, offsets](Backward& b, const Tensor& dout, const Saved& s) {
         auto [in] = s.get<1>();
         const Tensor& dw = w.gradient();
         k.grouped_matmul.weight_gradient(b.stream, dw, dout, in, groups(offsets), w.next_write());
         if (!bias) return;
         const Tensor& db = bias->gradient_to_add(b.stream);
         if (role == BiasRole::added) k.bias.grouped_backward(b.stream, db, dout, groups(offsets));
       }});
}

}  // namespace hexad::autograd
