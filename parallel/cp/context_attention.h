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

/// Position of this rank's rows, and the rows that they see.
struct ContextAttention {
  ContextSplit split;
  ContextKind kind = ContextKind::ring;
  const comm::ProcessGroup* group = nullptr;  // cp; its ranks are those of the split; outlives the tape
  bool causal = true;
  double scale = 1;            // usually 1 / sqrt(C)
  bool deterministic = false;  // as AttentionShape has it
  /// i32 [R], one a local row: the row sees positions [first, last) of its whole sequence (its document). Undefined:
  /// the whole sequence.
  Tensor first = {}, last = {};
  int64_t documents = 0;  // as AttentionShape has them
};

/// softmax(scale q k^T) v over the keys and values of all ranks. q [R, H, C]; k, v [R, G, C], H a multiple of G; result
/// [R, H, C], R = split.rows(): all in local row order. Rotary positions (of the whole sequence) are applied before.
/// Every rank of the group calls it, and its backward, as often and in the same order. A group of one is plain
/// attention. Equal to attention of the whole sequences up to rounding; partial results are added in acc.
///
/// Memory beyond inputs and results: ring two blocks [R, G, C] of keys and values (and three of their gradients in
/// backward); all_gather the keys and values of the whole sequences; ulysses q, k, v and out of H / ranks heads of
/// the whole sequences, kept for backward instead of the local ones. Ulysses needs heads that fit: see ulysses_fits.
Value context_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);

/// Every rank gets as many query heads, and the key heads they read: whole ones (G a multiple of `ranks`) or a copy of
/// one (`ranks` a multiple of G).
bool ulysses_fits(int64_t heads, int64_t key_heads, int ranks);

/// Bytes that a rank sends to others for one call.
struct ContextTraffic {
  int64_t forward, backward;
};
/// Traffic for heads of `size` elements of `dtype`; `documents`: first and last are given.
ContextTraffic context_traffic(ContextKind kind, const ContextSplit& split, int64_t heads, int64_t key_heads,
                               int64_t size, Dtype dtype, bool documents);

}  // namespace hexad::cp
