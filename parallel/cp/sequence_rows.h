// Rows moved between the order of ranks and the order of sequences.
#pragma once

#include "parallel/comm/process_group.h"
#include "parallel/cp/context_split.h"

namespace hexad::cp {

using base::Dtype;
using device::Stream;
using tensor::Tensor;

/// The rows of all ranks, one rank after the other [ranks R, ...], in the order of tokens.
Tensor in_sequence_order(const Tensor& rows, const ContextSplit& split, Stream& stream);
/// The inverse.
Tensor in_rank_order(const Tensor& tokens, const ContextSplit& split, Stream& stream);

/// `t` itself when contiguous and of this dtype, else a copy.
Tensor contiguous_as(const Tensor& t, Dtype dtype, Stream& stream);

/// A tensor on its way: `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};
/// The rows of all ranks, one rank after the other [ranks R, ...].
InFlight gather_rows(const Tensor& rows, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::cp
