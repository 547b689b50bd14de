// Drops the slots of experts over capacity.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/base/micro_batch.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

using device::Stream;
using tensor::Tensor;

/// Sets ids (i32 [R, K]) of slots over capacity to -1 (kernels::CapacityKernels::drop), counted over all tokens of
/// `batch`, of which the ranks of `tokens` (the tp x cp ranks, ranked t + tp c) hold equal shares of rows: the same
/// slots are dropped wherever they are held. This rank's rows of ids begin at `own` and have these scores [T, E] (acc;
/// never raw logits); ids are these rows alone, or those of all tp ranks of its context rank, which then are all
/// decided. Collective. Throws Error(communication) for an id of another rank that names no expert where the host can
/// see it; a device takes it for a slot of no expert. `stream` is the compute lane.
void drop_over_capacity(const Tensor& ids, int64_t own, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream);

}  // namespace hexad::moe
