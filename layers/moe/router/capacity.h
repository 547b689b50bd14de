// Drops the slots that exceed the capacity of experts.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/base/micro_batch.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

using device::Stream;
using tensor::Tensor;

/// Sets the ids (i32 [R, K]) of slots over capacity to -1 (kernels::CapacityKernels::drop). Capacity is counted over
/// all tokens of `batch`. The ranks of `tokens` (the tp x cp ranks, ranked t + tp c) hold equal shares of its rows, and
/// all of them drop the same slots. This rank's rows of ids begin at row `own`. `scores` [T, E] are the scores of these
/// rows (acc; never raw logits). `ids` has either only these rows, or the rows of all tp ranks of this rank's context
/// rank. Slots are dropped in all rows of `ids`. `stream` is the compute lane. Collective. An id of another rank that
/// names no expert throws Error(communication) if the host can read it; a device treats it as an empty slot.
void drop_over_capacity(const Tensor& ids, int64_t own, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream);

}  // namespace hexad::moe
