// Drops the slots above the capacity of experts.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/base/micro_batch.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

using device::Stream;
using tensor::Tensor;

/// Sets ids (i32 [R, K]) of slots over capacity to -1 (kernels::CapacityKernels::drop). Capacity is counted over all
/// tokens of `batch`. The ranks of `tokens` (the tp x cp ranks, ranked t + tp c) hold equal shares of its rows, and all
/// of them drop the same slots. This rank's rows of ids begin at row `own`. `scores` [T, E] are the scores of
/// these rows (acc; never raw logits). `ids` has either these rows only, or the rows of all tp ranks of this rank's
/// context rank. Slots are dropped in all rows of `ids`. `stream` is the compute lane. Collective. Throws
/// Error(communication) if an id of another rank names no expert and the host can read it; a device treats such an id
/// as an empty slot.
void drop_over_capacity(const Tensor& ids, int64_t own, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream);

}  // namespace hexad::moe
