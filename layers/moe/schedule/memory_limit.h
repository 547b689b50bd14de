// Bytes of buffers in one pass through the experts, and the number of chunks that keeps them below a limit.
#pragma once

#include "layers/moe/experts/experts.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/plan_counts.h"

namespace hexad::moe {

/// Returns an upper bound of the bytes that a pass of restored activations (forward or backward, whichever takes more)
/// has beside its inputs and outputs. Two chunks share two sets of buffers, so while one is computed either the next
/// arrives, with what is fetched for it, or the one before returns, and what is kept of it is moved away. Scratch of
/// the products is not counted. `dtype`: of the rows.
int64_t buffer_bytes(const ep::PlanCounts& plan, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype);
/// The same where a rank sends at most `sent` rows of a chunk and computes at most `there`.
int64_t buffer_bytes(int64_t sent, int64_t there, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype);

/// Returns the number of chunks to try after `chunks` of them took `bytes`, more than `limit`.
int64_t more_chunks(int64_t chunks, int64_t bytes, int64_t limit);

}  // namespace hexad::moe
