#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace kernels;

Value rotary(Tape& tape, const Value& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine) {
  require(x.data.rank() == 3 && positions.dim(0) == x.data.dim(0) && cosine.dim(1) * 2 == x.data.dim(2),
          "[rotary] x is ", x.shape(), ", positions ", positions.shape(), ", angles ", cosine.shape(),
          "; expected [T, H, C], [T] and [context, C/2]");
  const auto& k = kernels::kernels(x.device()).rotary;
  Tensor out = Tensor::like(x.data);
  k.apply(tape.stream, out, x.data, positions, cosine, sine, Direction::forward);
  // The tables belong to the layer, the positions to the batch: both outlive the tape.
  return tape.record("rotary", out, {x}, {},
                     [&k, positions, cosine, sine](Backward& b, const Tensor& dout, const Saved&) {
                       Tensor dx = Tensor::like(dout);
                       k.apply(b.stream, dx, dout, positions, cosine, sine, Direction::backward);
                       b.accumulate(0, dx);
                     });
}

}  // namespace hexad::autograd
