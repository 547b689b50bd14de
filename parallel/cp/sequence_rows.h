// Conversion between the order of tokens in their sequences and the order of rows on the ranks.
#pragma once

#include "parallel/comm/process_group.h"
#include "parallel/cp/context_split.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// Returns `rows` sorted by token. `rows` [ranks * R, ...] has the R rows of each rank, in the order of the ranks.
Tensor in_sequence_order(const Tensor& rows, const ContextSplit& split, Stream& stream);
/// Inverse of in_sequence_order(): returns the rows of `tokens` sorted by rank. The rows of `tokens` are in the order
/// of the tokens.
Tensor in_rank_order(const Tensor& tokens, const ContextSplit& split, Stream& stream);

/// Returns `t` itself if it is contiguous and has dtype `dtype`, otherwise a contiguous copy of this dtype.
Tensor contiguous_as(const Tensor& t, Dtype dtype, Stream& stream);

/// A tensor that is being received. `data` may be read once `arrived` is done.
struct InFlight {
  Tensor data;
  device::Event arrived;
};
/// Starts to gather the rows of all ranks as [ranks * R, ...], in the order of the ranks.
InFlight gather_rows(const Tensor& rows, const comm::ProcessGroup& group, Stream& stream);

}  // namespace hexad::cp
