// Embedding and loss for a vocabulary that is divided among tensor-parallel ranks. The part of rank r of n begins with
// row V * r / n of a table of V rows. Every rank has at least one row. In a group of one rank, these are the plain ops.
#pragma once

#include "parallel/tp/tensor_parallel.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

/// Returns rows ids[T] (i32 in [0, V), the same on all ranks) of table[V, D]. The result is [T, D] on all ranks or,
/// with sequence parallelism, this rank's part of the rows.
Value vocab_embedding(Tape& tape, Parameter& table, const Tensor& ids, const TensorParallel& tp);

/// Returns linear_cross_entropy(x, w, targets, ...) for w[V, D] and a bias whose rows are divided among the ranks.
/// x[T, D] and targets[T] are the same on all ranks. The loss, `row_losses` and the full gradient of x are bitwise
/// identical on all ranks. For each block of rows, a rank computes its own columns of the logits. The ranks exchange
/// three numbers per row of a block while they compute the logits of the next block.
Value vocab_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets, const ProcessGroup& group,
                          const CrossEntropyOptions& options, Tensor* row_losses = nullptr);

/// Rows of a table that this rank has. vocabulary_part() throws std::logic_error if the placement of `table` is not the
/// division described at the top of this file.
struct VocabularyPart {
  int64_t begin, end;
  bool holds(int64_t id) const { return begin <= id && id < end; }
};
VocabularyPart vocabulary_part(std::string_view op, const Parameter& table, const ProcessGroup& group);

}  // namespace hexad::tp
