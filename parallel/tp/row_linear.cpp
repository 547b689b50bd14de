#include "parallel/tp/overlap.h"
#include "parallel/tp/parallel_linear.h"

namespace hexad::tp {

using namespace autograd;
using namespace kernels;

Value row_linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias, const TensorParallel& tp) {
  if (tp.group->size() == 1) return linear(tape, x, w, bias);
  const Shape& ws = w.shape();
  require(ws.rank() == 2 && x.data.rank() == 2 && x.data.dim(1) == ws[1], "[row_linear] x is ", x.shape(), " but ",
          w.name(), " is ", ws, "; expected [T, D] and [N, D]");
  const KernelTable& k = kernels::kernels(x.device());
  const Tensor out = sum_of_products("row_linear", {x.data.dim(0), ws[0]}, x.data.dtype(), x.device(), tp, tape.stream,
                                     [&](const Tensor& part, int64_t begin, int64_t end) {
                                       k.matmul.forward(tape.stream, part, x.data.slice(0, begin, end),
                                                        w.use(tape.stream), Write::replace);
                                     });
  std::vector<Parameter*> parameters{&w};
  if (bias) {
    k.bias.forward(tape.stream, out, bias->use(tape.stream));
    parameters.push_back(bias);
  }
  return tape.record(
      "row_linear", out, {x}, save(w.trainable() ? x.data : Tensor{}),
      [&k, &w, tp, shape = x.shape()](Backward& b, const Tensor& dout, const Saved&) {
        // Starts to gather all rows of the output's gradient. The input gradient uses the rows when they arrive, and
        // the weight gradient uses them later.
        const auto gather = tp.sequence ? std::make_shared<RowGather>(dout, *tp.group, b.stream) : nullptr;
        if (gather) b.save_for_weights(gather);
        if (!b.wants(0)) return;
        Tensor dx = Tensor::empty(shape, dout.dtype(), dout.device());
        const auto multiply = [&](const Tensor& rows, int64_t begin, int64_t end) {
          k.matmul.input_gradient(b.stream, dx.slice(0, begin, end), rows, w.use(b.stream), Write::replace);
        };
        if (gather)
          gather->for_each_part(b.stream, multiply);
        else
          multiply(dout, 0, dout.dim(0));
        b.accumulate(0, dx);
      },
      {parameters, [&k, &w, bias, tp](Backward& b, const Tensor& dout, const Saved& s) {
         auto [in] = s.get<1>();
         const Tensor all = tp.sequence ? b.saved_by_pullback().get<1>()[0] : dout;
         if (w.trainable()) {
           const auto [dw, write] = w.next_gradient_target();
           k.matmul.weight_gradient(b.stream, dw, all, in, write);
         }
         if (bias && bias->trainable()) k.bias.backward(b.stream, bias->gradient_to_add(b.stream), dout);
       }});
}

LinearTransfers transfers_of_row_linear(int64_t rows, int64_t row_bytes, const TensorParallel& tp) {
  LinearTransfers all{.forward = transfers_of_sum(rows, row_bytes, tp), .backward = {}};
  if (tp.sequence) all.backward = transfers_of_gather(rows, row_bytes, *tp.group);
  return all;
}

}  // namespace hexad::tp
