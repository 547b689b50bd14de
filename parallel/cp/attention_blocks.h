// Attention of this rank's queries to the keys and values of one rank at a time.
#pragma once

#include "parallel/cp/context_attention.h"

namespace hexad::cp {

using device::Stream;

/// A half of the queries meets a half of the keys: the same chunk (diagonal: causal inside), or one seen in full.
struct BlockPair {
  int query_half, key_half;
  bool diagonal;
};
/// Pairs of halves through which the queries of split.rank see the rows of rank `owner`. Causal: two pairs, or three of
/// its own rows, of which two are diagonal; so every rank computes the same.
std::vector<BlockPair> visible_pairs(const ContextSplit& split, int owner, bool causal);

/// softmax(scale q k^T) v over the keys met so far, in acc: put together by log-sum-exps (Liu et al. 2023, section 3).
class RunningAttention {
 public:
  /// Starts for queries like `q`; has met no key.
  explicit RunningAttention(const Tensor& q, Stream& stream);
  /// Meets the keys and values [R, G, C] of rank `owner`.
  void add(const Tensor& q, const Tensor& k, const Tensor& v, int owner, const ContextAttention& c, Stream& stream);

  const Tensor& sum() const { return sum_; }                  // [R, H, C]; zero where no key was seen
  const Tensor& log_sum_exp() const { return log_sum_exp_; }  // [R, H]; -inf there

 private:
  Tensor sum_, log_sum_exp_;
};

/// Tensors of this rank's queries that backward needs, and the destination of their gradient.
struct QueryGradient {
  Tensor dq;  // acc; added to
  Tensor dout, out, log_sum_exp, q;
};
/// Adds what the keys and values of rank `owner` contribute to dq, and the gradients of these to dk, dv (acc). With the
/// log-sum-exp over all keys, a block's probabilities are those of the whole (Dao et al. 2022), so blocks just add up.
void add_gradients(const QueryGradient& g, const Tensor& dk, const Tensor& dv, const Tensor& k, const Tensor& v,
                   int owner, const ContextAttention& c, Stream& stream);

}  // namespace hexad::cp
