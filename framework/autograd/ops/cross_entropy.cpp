#include <algorithm>

#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;
using namespace kernels;

Dtype CrossEntropyOptions::dtype_of_logits(std::string_view op, Dtype dtype) const {
  const Dtype acc = accumulator_dtype(dtype), chosen = logits_dtype.value_or(acc);
  require(chosen == acc || chosen == dtype, "[", op, "] logits_dtype is ", chosen, " for x in ", dtype, "; expected ",
          acc == dtype ? cat(acc) : cat(acc, " or ", dtype));
  return chosen;
}

Value linear_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets,
                           const CrossEntropyOptions& options, Tensor* row_losses) {
  const int64_t rows = x.data.dim(0), vocab = w.shape()[0];
  require(x.data.dim(1) == w.shape()[1] && targets.dim(0) == rows, "[cross_entropy] x is ", x.shape(), ", ", w.name(),
          " ", w.shape(), ", targets ", targets.shape(), "; expected [T, D], [V, D] and [T]");
  const KernelTable& k = kernels::kernels(x.device());
  const Dtype acc = accumulator_dtype(x.data.dtype());
  const Dtype of_logits = options.dtype_of_logits("cross_entropy", x.data.dtype());
  const bool train = tape.recording();
  const int64_t block = options.block_rows.value_or(k.cross_entropy.block_rows(rows, vocab));
  require(block > 0, "[cross_entropy] block_rows is ", block, "; expected at least 1");
  const Tensor weight = w.use(tape.stream);
  Parameter* const bias = options.bias;
  require(!bias || (bias->shape() == Shape{vocab} && bias->dtype() == acc), "[cross_entropy] the bias is ",
          bias ? bias->shape() : Shape{}, " ", bias ? bias->dtype() : acc, ", expected [", vocab, "] ", acc);
  const Tensor addend = bias ? bias->use(tape.stream) : Tensor{};
  std::vector<Parameter*> parameters{&w};
  if (bias) parameters.push_back(bias);

  Tensor losses = Tensor::empty({rows}, acc, x.device());
  Tensor dx = train ? Tensor::like(x.data) : Tensor{};
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t end = std::min(rows, begin + block);
    const Tensor in = x.data.slice(0, begin, end);
    Tensor logits = Tensor::empty({end - begin, vocab}, of_logits, x.device());
    k.matmul.forward(tape.stream, logits, in, weight, Write::replace);
    if (bias) k.bias.forward(tape.stream, logits, addend);
    // The gradient of the logits is written in the dtype of x, because matrix products multiply this gradient by x and
    // w.
    Tensor dlogits;
    if (train)
      dlogits = of_logits == x.data.dtype() ? logits : Tensor::empty(logits.shape(), x.data.dtype(), x.device());
    k.cross_entropy.forward(tape.stream, losses.slice(0, begin, end), dlogits, logits, targets.slice(0, begin, end),
                            options.gradient_scale);
    if (!train) continue;
    k.matmul.input_gradient(tape.stream, dx.slice(0, begin, end), dlogits, weight, Write::replace);
    if (w.trainable()) k.matmul.weight_gradient(tape.stream, w.gradient(), dlogits, in, w.next_write());
    if (bias && bias->trainable()) k.bias.backward(tape.stream, bias->gradient_to_add(tape.stream), dlogits);
  }

  Tensor total = Tensor::empty({1}, acc, x.device());
  k.pointwise.sum(tape.stream, total, losses, Write::replace);
  if (row_losses) *row_losses = losses;

  return tape.record("linear_cross_entropy", total, {x}, save(dx),
                     [scale = options.gradient_scale](Backward& b, const Tensor& dout, const Saved& s) {
                       if (dout.device().on_host()) {  // on a device, the read would block the host
                         const double given = dout.dtype() == Dtype::f64 ? *dout.data<double>() : *dout.data<float>();
                         require(dout.dtype() == Dtype::f64 ? given == scale : given == static_cast<float>(scale),
                                 "[cross_entropy] the gradient of the loss is ", given,
                                 "; expected gradient_scale, which is ", scale);
                       }
                       auto [saved_dx] = s.get<1>();
                       b.accumulate(0, saved_dx);
                     },
                     {parameters, {}});
}

}  // namespace hexad::autograd
