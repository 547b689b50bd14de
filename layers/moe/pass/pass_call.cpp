#include "layers/moe/pass/pass_call.h"

#include <utility>

namespace hexad::moe {

SharedWork PassCall::shared_backward(Backward& b) const {
  const int64_t products = shared.products.front();
  if (products == 0 || !routes->settings.schedule.shares_pass()) return {};
  return {.compute = [&b, first = first_shared_op] { b.replay_from(first); },
          .cost = {.flops = shared.flops,
                   .products = {0, products, b.weights_delayed() ? 0 : products},
                   .transfers = backward_transfers}};
}

Value PassCall::record(Tape& tape, const Tensor& out, const Value& x, const Value& weights,
                       const std::vector<Value>& addends, const std::vector<Tensor>& saved,
                       autograd::Pullback pullback) const {
  std::vector<Value> inputs{x, weights};
  const size_t first_addend = inputs.size();
  inputs.insert(inputs.end(), addends.begin(), addends.end());
  const bool shares_pass = routes->settings.schedule.shares_pass();
  return tape.record_many(
      "moe_pass", {out}, inputs, saved,
      [pullback = std::move(pullback), first_addend, count = inputs.size(), shares_pass, first = first_shared_op,
       routes = routes](Backward& b, const Tensor& dout, const Saved& kept) {
        const auto timer = routes->settings.start(PassKind::backward, b.stream);
        for (size_t i = first_addend; i < count; ++i) b.accumulate(i, dout);
        if (!shares_pass) b.replay_from(first);
        pullback(b, dout, kept);
        if (timer) timer->stop(b.stream);
      },
      // There is no separate weight pullback: tasks of the pass compute the weight gradients, or
      // the pass defers them. This argument only lists the parameters.
      {experts->parameters(), {}})[0];
}

Tensor gradient_per_copy(const Routes& routes, const Tensor& dout, Stream& stream) {
  const Tensor own = routes.own_rows_of_result(dout);  // equal to dout if tp is 1
  if (routes.copies == 1) return own;
  const auto& k = kernels_of(dout).pointwise;
  const Tensor share = Tensor::like(own);
  k.copy(stream, share, own);
  k.scale(stream, share, 1.0 / routes.copies);
  return share;
}

}  // namespace hexad::moe
