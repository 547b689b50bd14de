// Halves of a rank's rows, for ops that compute one half after the other.
#pragma once

#include <array>

#include "framework/kernels/kernel_table.h"
#include "parallel/cp/context_split.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// One tensor for each half of a rank. The second tensor is undefined if the rank has only one half.
using Halves = std::array<Tensor, 2>;

/// Returns the rows of half `half` of this rank. `rows` has the rows of all halves. The result is undefined if `rows`
/// is undefined.
inline Tensor half_of(const Tensor& rows, const ContextSplit& split, int half) {
  return rows.defined() ? rows.slice(0, half * split.half_rows(), (half + 1) * split.half_rows()) : Tensor();
}

/// Returns the number of sequences, and the position in each sequence at which half `half` of this rank begins.
inline kernels::SequenceRows sequence_rows(const ContextSplit& split, int half) {
  return {.sequences = split.sequences, .begin = split.piece_begin(split.rank, half)};
}

}  // namespace hexad::cp
