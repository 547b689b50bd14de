#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value chosen_scores(Tape& tape, const Value& scores, const Tensor& ids) {
  const Tensor& x = scores.data;
  require(x.rank() == 2 && ids.rank() == 2 && ids.dim(0) == x.dim(0) && x.dtype() == accumulator_dtype(x.dtype()),
          "[chosen_scores] scores are ", x.shape(), " ", x.dtype(), ", ids ", ids.shape(), "; expected [T, E] ",
          accumulator_dtype(x.dtype()), ", and [T, K]");
  const auto& k = kernels::kernels(scores.device()).expert_choice;
  const Tensor weights = Tensor::empty(ids.shape(), x.dtype(), scores.device());
  k.forward(tape.stream, weights, x, ids);
  return tape.record("chosen_scores", weights, {scores}, save(ids),
                     [&k, shape = x.shape(), dtype = x.dtype()](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [chosen] = s.get<1>();
                       const Tensor dscores = Tensor::empty(shape, dtype, dout.device());
                       k.backward(b.stream, dscores, dout, chosen);
                       b.accumulate(0, dscores);
                     });
}

}  // namespace hexad::autograd
