#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

RouterChoice choose_experts(Tape& tape, const Value& logits, const Tensor& bias, const RouterRule& rule,
                            const Tensor& forced_ids) {
  const int64_t tokens = logits.data.dim(0), experts = logits.data.dim(1);
  require(logits.data.dtype() == accumulator_dtype(logits.data.dtype()), "[router] logits are ", logits.data.dtype(),
          "; expected the accumulator dtype, ", accumulator_dtype(logits.data.dtype()));
  require(rule.top_k >= 1 && rule.top_k <= experts, "[router] top_k is ", rule.top_k, "; expected 1 to ", experts);
  const auto& k = kernels::kernels(logits.device()).router;
  Tensor scores = Tensor::like(logits.data);
  Tensor ids = Tensor::empty({tokens, rule.top_k}, Dtype::i32, logits.device());
  Tensor weights = Tensor::empty({tokens, rule.top_k}, logits.data.dtype(), logits.device());
  k.forward(tape.stream, scores, ids, weights, logits.data, bias, rule);
  if (forced_ids.defined()) {
    require(forced_ids.shape() == ids.shape(), "[router] forced ids are ", forced_ids.shape(), "; expected ",
            ids.shape());
    ids = forced_ids;
    k.weigh(tape.stream, weights, ids, scores, rule);
  }
  const Value inputs[] = {logits};
  auto out = tape.record_many(
      "choose_experts", {scores, weights}, inputs, save(scores, ids),
      [&k, rule](Backward& b, const Tensor& dscores, const Saved& s) {
        auto [saved_scores, saved_ids] = s.get<2>();
        Tensor dweights = b.output_gradient(1);
        if (!dweights.defined())
          dweights = Tensor::zeros({saved_ids.dim(0), saved_ids.dim(1)}, saved_scores.dtype(), saved_scores.device());
        Tensor dlogits = Tensor::like(saved_scores);
        k.backward(b.stream, dlogits, dweights, dscores, saved_scores, saved_ids, rule);
        b.accumulate(0, dlogits);
      });
  return {out[0], out[1], ids};
}

}  // namespace hexad::autograd
