#include "framework/autograd/ops/sinks.h"

namespace hexad::autograd {

using namespace base;

AttentionSinks AttentionSinks::from(int64_t head) const {
  AttentionSinks sinks = *this;
  sinks.first_ += head;
  return sinks;
}

void AttentionSinks::add(Stream& stream, const Tensor& out, const Tensor& log_sum_exp) const {
  if (!logits_) return;
  require(first_ + out.dim(1) <= logits_->shape()[0], "[attention] out has ", out.dim(1), " heads from head ", first_,
          " on, but ", logits_->name(), " is ", logits_->shape(), "; expected at least ", first_ + out.dim(1),
          " logits");
  kernels::kernels(out.device()).sink.forward(stream, out, log_sum_exp, slice_heads(logits_->use(stream), out.dim(1)));
}

void AttentionSinks::backward(Backward& b, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp) const {
  if (!logits_ || !logits_->trainable()) return;
  const Tensor gradients = Tensor::like(log_sum_exp);
  kernels::kernels(out.device())
      .sink.backward(b.stream, gradients, dout, out, log_sum_exp, slice_heads(logits_->use(b.stream), out.dim(1)));
  b.save_for_weights(save(gradients));
}

WeightPullback AttentionSinks::weights() const {
  if (!logits_) return {};
  return {{logits_}, [sinks = *this](Backward& b, const Tensor&, const Saved&) {
            const auto [gradients] = b.saved_by_pullback().get<1>();
            const Tensor sum = sinks.slice_heads(sinks.logits_->gradient_to_add(b.stream), gradients.dim(1));
            kernels::kernels(gradients.device()).bias.backward(b.stream, sum, gradients);
          }};
}

}  // namespace hexad::autograd
