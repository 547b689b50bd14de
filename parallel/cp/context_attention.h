// Attention over sequences that several ranks share.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/process_group.h"
#include "parallel/cp/context_kind.h"
#include "parallel/cp/context_split.h"

namespace hexad::cp {

using autograd::Tape;
using autograd::Value;
using base::Dtype;
using tensor::Tensor;

/// Position of this rank's rows, and the range of positions that each row sees.
struct ContextAttention {
  ContextSplit split;
  ContextKind kind = ContextKind::ring;
  const comm::ProcessGroup* group = nullptr;  // group along cp; its ranks are those of the split; outlives the tape
  bool causal = true;
  double scale = 1;            // usually 1 / sqrt(C)
  bool deterministic = false;  // as in AttentionShape
  /// i32 [R], one entry per local row: the row sees positions [first, last) of its whole sequence (its document).
  /// Undefined: the whole sequence.
  Tensor first = {}, last = {};
  int64_t documents = 0;  // as in AttentionShape
};

/// Returns softmax(scale q k^T) v over the keys and values of all ranks. q [R, H, C]; k, v [R, G, C], H a multiple of
/// G; result [R, H, C], R = split.rows(). All are in local row order. Rotary positions (of the whole sequence) must
/// have been applied. Every rank of the group calls it and its backward equally often and in the same order. A group of
/// one is plain attention. The result equals attention of the whole sequences up to rounding; partial results are added
/// in acc.
///
/// Memory in addition to inputs and results:
/// - ring: two blocks [R, G, C] of keys and values (and three of their gradients in backward).
/// - all_gather: the keys and values of the whole sequences.
/// - ulysses: q, k, v and out of H / ranks heads of the whole sequences, kept for backward instead of the local
///   tensors. The heads must fit: see ulysses_fits.
Value context_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);

/// Connects every rank of `group` to the next one for ContextKind::ring on tensors of `device`. Otherwise the first
/// context_attention() does so. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect_ring(const comm::ProcessGroup& group, device::Device device);

/// True if every rank can get the same number of query heads with the key heads that they read: whole key heads (G a
/// multiple of `ranks`) or a copy of one (`ranks` a multiple of G).
bool ulysses_fits(int64_t heads, int64_t key_heads, int ranks);

/// Bytes that a rank sends to other ranks for one call.
struct ContextTraffic {
  int64_t forward, backward;
};
/// Returns the traffic for heads of `size` elements of `dtype`. `documents`: true if `first` and `last` are given.
ContextTraffic context_traffic(ContextKind kind, const ContextSplit& split, int64_t heads, int64_t key_heads,
                               int64_t size, Dtype dtype, bool documents);

}  // namespace hexad::cp
