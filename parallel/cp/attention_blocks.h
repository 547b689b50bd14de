// Attention of this rank's queries to the keys and values of one rank at a time.
#pragma once

#include "parallel/cp/context_attention.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// A half of the queries and a half of the keys. `diagonal` is true if both halves are the same piece and attention is
/// causal. Otherwise, every query attends to every key, except keys that a window or a document hides.
struct BlockPair {
  int query_half, key_half;
  bool diagonal;
};
/// Returns the pairs of halves in which queries of split.rank attend to keys of rank `owner`. In causal attention of
/// several ranks without a window, there are two pairs for another rank's keys. There are three pairs for the rank's
/// own keys, and two of these pairs are diagonal. Every rank then has the same amount of work. Omits pairs in which
/// every key is at least `window` positions before every query if `window` is not 0.
std::vector<BlockPair> visible_pairs(const ContextSplit& split, int owner, bool causal, int64_t window = 0);

/// Computes softmax(scale q k^T) v over all keys that have been added so far, in the accumulator dtype (acc). Partial
/// results are weighted by their log-sum-exps (Liu et al. 2023, section 3).
class RunningAttention {
 public:
  /// Starts without keys. The queries of all calls of add() must have the shape of `q`.
  explicit RunningAttention(const Tensor& q, Stream& stream);
  /// Adds the keys and values [R, G, C] of rank `owner`.
  void add(const Tensor& q, const Tensor& k, const Tensor& v, int owner, const ContextAttention& c, Stream& stream);

  const Tensor& sum() const { return sum_; }                  // [R, H, C]; zero in rows without keys so far
  const Tensor& log_sum_exp() const { return log_sum_exp_; }  // [R, H]; -inf for rows without keys so far

 private:
  Tensor sum_, log_sum_exp_;
};

/// Tensors of this rank's queries for backward. `dq` receives the gradient; all other tensors are read.
struct QueryGradient {
  Tensor dq;  // [R, H, C] acc; the gradient is added to it
  Tensor dout, out, log_sum_exp, q;
};
/// Adds the contribution of rank `owner`'s keys and values to dq, and their gradients to dk and dv (acc). Every block
/// uses the log-sum-exp over all keys (Dao et al. 2022). The probabilities of a block are therefore final, and the
/// contributions of blocks can be added.
void add_gradients(const QueryGradient& g, const Tensor& dk, const Tensor& dv, const Tensor& k, const Tensor& v,
                   int owner, const ContextAttention& c, Stream& stream);

}  // namespace hexad::cp
