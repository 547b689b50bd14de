#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace kernels;

Rotated rotary(Tape& tape, const Value& q, const Value& k, const Tensor& positions, const Tensor& cosine,
               const Tensor& sine) {
  for (const Value& x : {q, k})
    require(x.data.rank() == 3 && positions.dim(0) == x.data.dim(0) && cosine.dim(1) * 2 <= x.data.dim(2),
            "[rotary] q is ", q.shape(), ", k ", k.shape(), ", positions ", positions.shape(), ", angles ",
            cosine.shape(), "; expected [T, H, C], [T] and [context, at most C/2]");
  const auto& kernel = kernels::kernels(q.device()).rotary;
  const QueriesAndKeys out{Tensor::like(q.data), Tensor::like(k.data)};
  kernel.apply(tape.stream, out, {q.data, k.data}, positions, cosine, sine, Direction::forward);
  const Value inputs[] = {q, k};
  // The pullback captures the positions and the tables. Saving them on the tape would have no use, because the batch
  // and the layer keep them in memory anyway.
  const std::vector<Value> values =
      tape.record_many("rotary", {out.q, out.k}, inputs, {},
                       [&kernel, positions, cosine, sine](Backward& b, const Tensor& dq, const Saved&) {
                         const QueriesAndKeys gradients{dq, b.output_gradient(1)};
                         const auto like = [](const Tensor& x) { return x.defined() ? Tensor::like(x) : x; };
                         const QueriesAndKeys result{like(gradients.q), like(gradients.k)};
                         kernel.apply(b.stream, result, gradients, positions, cosine, sine, Direction::backward);
                         if (result.q.defined()) b.accumulate(0, result.q);
                         if (result.k.defined()) b.accumulate(1, result.k);
                       });
  return {values[0], values[1]};
}

Value rotary(Tape& tape, const Value& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine) {
  require(x.data.rank() == 3 && positions.dim(0) == x.data.dim(0) && cosine.dim(1) * 2 <= x.data.dim(2),
          "[rotary] x is ", x.shape(), ", positions ", positions.shape(), ", angles ", cosine.shape(),
          "; expected [T, H, C], [T] and [context, at most C/2]");
  const auto& kernel = kernels::kernels(x.device()).rotary;
  // The pullback captures the positions and the tables, as in rotary() of two tensors.
  const auto turned = [&kernel, positions, cosine, sine](Stream& stream, const Tensor& from, Direction direction) {
    const QueriesAndKeys out{Tensor::like(from), {}};
    kernel.apply(stream, out, {from, {}}, positions, cosine, sine, direction);
    return out.q;
  };
  return tape.record("rotary", turned(tape.stream, x.data, Direction::forward), {x}, {},
                     [turned](Backward& b, const Tensor& dout, const Saved&) {
                       b.accumulate(0, turned(b.stream, dout, Direction::backward));
                     });
}

}  // namespace hexad::autograd
