// Moves rows between the order of ranks and the order of sequences.
#pragma once

#include "parallel/comm/process_group.h"
#include "parallel/cp/context_split.h"

namespace hexad::cp {

using base::Dtype;
using device::Stream;
using tensor::Tensor;

/// Returns the rows of all ranks, given one rank after the other [ranks R, ...], in the order of tokens.
Tensor in_sequence_order(const Tensor& rows, const ContextSplit& split, Stream& stream);
/// Returns the rows in the order of ranks: the inverse of in_sequence_order().
Tensor in_rank_order(const Tensor& tokens, const ContextSplit& split, Stream& stream);

/// Returns `t` itself if it is contiguous and of this dtype, else a copy.
Tensor contiguous_as(const Tensor& t, Dtype dtype, Stream& stream);

/// A tensor in flight: `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};
/// Gathers the rows of all ranks, one rank after the other [ranks R, ...].
InFlight gather_rows(const Tensor& rows, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::cp
