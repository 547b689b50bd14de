// Attention over sequences whose tokens are divided among several ranks.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/process_group.h"
#include "parallel/cp/context_kind.h"
#include "parallel/cp/context_split.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// Arguments of context_attention(): the rows of this rank, the exchange of keys and values, and the positions to which
/// each row attends.
struct ContextAttention {
  ContextSplit split;
  ContextKind kind = ContextKind::ring;
  const comm::ProcessGroup* group = nullptr;  // group along cp, with the ranks of the split; must outlive the tape
  bool causal = true;
  double scale = 1;            // factor of the scores q k^T, such as 1 / sqrt(C)
  bool deterministic = false;  // true: results are bitwise identical in every run
  /// i32 [R], one entry for each local row. The row attends to positions [first, last) of its sequence, which are the
  /// document of the row. Each row attends to its whole sequence if these tensors are undefined.
  Tensor first = {}, last = {};
  int64_t documents = 0;   // number of documents; see kernels::AttentionShape
  int64_t window = 0;      // a query at position p attends only to positions above p - window; 0: no window
  int64_t value_size = 0;  // number of elements of a head of v that may differ from zero; 0: all (AttentionShape)
  /// Attention sinks of the heads. Every query counts the sink of its head exactly once.
  autograd::AttentionSinks sinks = {};
};

/// Returns softmax(scale q k^T) v over the keys and values of all ranks. q and the result are [R, H, C]. k and v are
/// [R, G, C]. R is split.rows(), and H is a multiple of G. The rows of all tensors are in the order of the split.
/// Rotary embeddings must already have been applied, with positions in the whole sequence. The result equals attention
/// over the whole sequences, up to rounding; partial results are added in the accumulator dtype. In a group of one
/// rank, this is plain attention. Collective, in forward and in backward.
///
/// Memory needed in addition to operands and results, excluding temporary copies:
/// - ring: two blocks [R, G, C] of keys and values and, in backward, three blocks of their gradients. For bf16, also
///   the result (in backward, dq) in the accumulator dtype.
/// - all_gather: the keys and values of the whole sequences and, in backward, their gradients.
/// - ulysses: q, k, v and out of H / ranks heads of the whole sequences. Backward needs these instead of the local
///   tensors. See ulysses_fits() for the permitted numbers of heads.
Value context_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);

/// Connects every rank of `group` to the next rank, for ContextKind::ring with tensors on `device`. Without this call,
/// the first context_attention() connects the ranks. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect_ring(const comm::ProcessGroup& group, device::Device device);

/// True if every rank can have the same number of query heads, together with the key heads that these queries read.
/// This requires that `heads` is a multiple of `ranks` and of `key_heads`. Also, `key_heads` must be a multiple or a
/// divisor of `ranks`. Each rank has a copy of one key head if `key_heads` is a divisor.
bool ulysses_fits(int64_t heads, int64_t key_heads, int ranks);

}  // namespace hexad::cp
