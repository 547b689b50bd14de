// Attention of this rank's queries to the keys and values of one rank at a time.
#pragma once

#include "parallel/cp/context_attention.h"

namespace hexad::cp {

using device::Stream;

/// A pair of a half of the queries and a half of the keys. Both halves are the same chunk (diagonal: causal inside), or
/// every query sees every key.
struct BlockPair {
  int query_half, key_half;
  bool diagonal;
};
/// Returns the pairs of halves through which the queries of split.rank see the rows of rank `owner`. A causal rank has
/// two pairs per owner. For its own rows it has three, of which two are diagonal. So every rank computes the same
/// amount.
std::vector<BlockPair> visible_pairs(const ContextSplit& split, int owner, bool causal);

/// Computes softmax(scale q k^T) v over the keys added so far, in acc. Partial results are merged by log-sum-exps (Liu
/// et al. 2023, section 3).
class RunningAttention {
 public:
  /// Starts without keys, for queries of the shape of `q`.
  explicit RunningAttention(const Tensor& q, Stream& stream);
  /// Adds the keys and values [R, G, C] of rank `owner`.
  void add(const Tensor& q, const Tensor& k, const Tensor& v, int owner, const ContextAttention& c, Stream& stream);

  const Tensor& sum() const { return sum_; }                  // [R, H, C]; zero for rows that have seen no key
  const Tensor& log_sum_exp() const { return log_sum_exp_; }  // [R, H]; -inf for rows that have seen no key

 private:
  Tensor sum_, log_sum_exp_;
};

/// Tensors of this rank's queries that backward needs, and the destination of their gradient.
struct QueryGradient {
  Tensor dq;  // acc; the gradient is added to it
  Tensor dout, out, log_sum_exp, q;
};
/// Adds the contribution of rank `owner`'s keys and values to dq, and their own gradients to dk, dv (acc). Every block
/// uses the log-sum-exp over all keys, so its probabilities are those of the whole (Dao et al. 2022) and contributions
/// add up.
void add_gradients(const QueryGradient& g, const Tensor& dk, const Tensor& dv, const Tensor& k, const Tensor& v,
                   int owner, const ContextAttention& c, Stream& stream);

}  // namespace hexad::cp
