// Sinks of attention (Xiao et al. 2023; gpt-oss), for ops that compute attention.
#pragma once

#include "framework/autograd/tape.h"

namespace hexad::autograd {

/// Sinks of consecutive heads: one trainable logit for each head. In each softmax of the head, the logit is an
/// additional entry without a value vector. A default-constructed object has no sinks: add() and backward() do nothing.
///
/// An op must add the sinks once, after it has computed the attention to all keys. The attention's own backward pass
/// then needs no change, because it computes probabilities from the log-sum-exp, which contains the sinks.
class AttentionSinks {
 public:
  AttentionSinks() = default;
  /// Takes the sinks from `logits` [heads] (accumulator dtype). `logits` must outlive the tape.
  explicit AttentionSinks(Parameter& logits) : logits_(&logits) {}
  /// Returns the sinks of the heads from `head` on, counted from the first head of this object.
  AttentionSinks from(int64_t head) const;

  /// Multiplies out[T, H, C] by the sum of the probabilities of the keys in the softmax. Adds the sinks to
  /// log_sum_exp[T, H].
  void add(Stream& stream, const Tensor& out, const Tensor& log_sum_exp) const;
  /// Computes the gradient of each row's sinks and passes it to the weight pullback. Does nothing if the sinks are
  /// frozen. Must be called in the pullback of the op. `out` and `log_sum_exp` contain the sinks.
  void backward(Backward& b, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp) const;
  /// Returns the weight pullback of the op, which sums the results of backward() over the rows; empty without sinks.
  WeightPullback weights() const;

 private:
  Tensor slice_heads(const Tensor& all, int64_t heads) const { return all.slice(0, first_, first_ + heads); }

  Parameter* logits_ = nullptr;
  int64_t first_ = 0;  // index in `logits_` of this object's first head
};

}  // namespace hexad::autograd
