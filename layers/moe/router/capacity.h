// Drops the slots that exceed the capacity of experts.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/base/micro_batch.h"
#include "layers/base/moe_names.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

/// Sets the ids (i32 [R, K]) of slots over capacity to -1 (kernels::CapacityKernels::drop). Capacity is counted over
/// all tokens of a scope of `batch`. Rank t + tp * c of `tokens` is tp rank t and cp rank c. The ranks of `tokens` hold
/// equal shares of the batch's rows, and all drop the same slots. `ids` has either this rank's rows, or the rows of all
/// tp ranks at this rank's cp coordinate. Row `own` is the first of this rank's rows. `scores` [T, E] are the scores of
/// this rank's rows in the accumulator dtype, never raw logits. Slots are dropped in all rows of `ids`. `stream` is the
/// compute lane. Collective. Throws Error(communication) if another rank sends an id that is no expert and the ids are
/// in host memory. In device memory, such an id counts as an empty slot.
void drop_over_capacity(const Tensor& ids, int64_t own, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream);

}  // namespace hexad::moe
