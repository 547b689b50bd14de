#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value sparse_mixer_weights(Tape& tape, const Value& logits, const Tensor& ids, double tolerance) {
  const Tensor& x = logits.data;
  require(x.rank() == 2 && ids.rank() == 2 && ids.dim(0) == x.dim(0) && ids.dim(1) <= x.dim(1) &&
              x.dtype() == accumulator_dtype(x.dtype()),
          "[sparse_mixer] logits are ", x.shape(), " ", x.dtype(), ", ids ", ids.shape(), "; expected [T, E] ",
          accumulator_dtype(x.dtype()), ", and [T, K] with K <= E");
  const auto& k = kernels::kernels(logits.device()).sparse_mixer;
  const Tensor weights = Tensor::empty(ids.shape(), x.dtype(), logits.device());
  k.forward(tape.stream, weights, x, ids, tolerance);
  return tape.record("sparse_mixer", weights, {logits}, save(x, ids),
                     [&k, tolerance](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [saved, chosen] = s.get<2>();
                       const Tensor dlogits = Tensor::like(saved);
                       k.backward(b.stream, dlogits, dout, saved, chosen, tolerance);
                       b.accumulate(0, dlogits);
                     });
}

}  // namespace hexad::autograd
