// Capacity over the tokens of a micro-batch that several ranks share.
#pragma once

#include "layers/micro_batch.h"
#include "layers/moe/router/capacity.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

/// drop_over_capacity() over all tokens of `batch`, of which the ranks of `tokens` (the tp x cp ranks, ranked t + tp c)
/// hold equal shares of rows: the same slots are dropped whoever holds them. ids [T, K] i32 and scores [T, E], on the
/// host, are this rank's; collective. Returns how many of this rank's slots were dropped.
int64_t drop_over_shared_capacity(const Tensor& ids, const Tensor& scores, const layers::MicroBatch& batch,
                                  const comm::ProcessGroup& tokens, int64_t scope_tokens, double factor, DropRule rule);

}  // namespace hexad::moe
