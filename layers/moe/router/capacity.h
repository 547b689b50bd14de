// Which slots an expert over capacity drops.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/micro_batch.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

using namespace tensor;

/// Sets ids (i32 [T, K]) of slots over capacity to -1 (kernels::CapacityKernels::drop), counted over all tokens of
/// `batch`, of which the ranks of `tokens` (the tp x cp ranks, ranked t + tp c) hold equal shares of rows: the same
/// slots are dropped whoever holds them. ids and scores [T, E] (acc; never raw logits) are this rank's; collective.
/// Throws Error(communication) for an id of another rank that names no expert, where the host can see it.
void drop_over_capacity(const Tensor& ids, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream);

}  // namespace hexad::moe
