// Bytes of the buffers of one pass through the experts, and the number of chunks that keeps these bytes below a limit.
#pragma once

#include "layers/moe/experts/experts.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/plan_counts.h"

namespace hexad::moe {

/// Returns an upper bound of the bytes of a pass with restored activations, without its inputs and outputs: the maximum
/// of forward and backward. Two chunks share two sets of buffers. While one chunk is computed, either the next chunk
/// arrives and its offloaded tensors are fetched, or the previous chunk returns and its tensors are offloaded. Scratch
/// memory of the matrix products is not counted. `dtype` is the dtype of the rows.
int64_t buffer_bytes(const ep::PlanCounts& plan, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype);
/// Returns the same bound for a rank that sends at most `sent` rows of a chunk and computes at most `there` rows of it.
int64_t buffer_bytes(int64_t sent, int64_t there, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype);

/// Returns the number of chunks to try next, if the buffers for `chunks` chunks need `bytes` bytes, which exceed
/// `limit`.
int64_t more_chunks(int64_t chunks, int64_t bytes, int64_t limit);

}  // namespace hexad::moe
