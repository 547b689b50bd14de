// Size of the buffers of one pass through the experts, and the number of chunks to try next if the buffers exceed a
// limit.
#pragma once

#include "layers/moe/experts/experts.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/routing_counts.h"

namespace hexad::moe {

/// Returns an upper bound of the buffers' bytes in a pass that restores activations: the maximum of forward and
/// backward. The inputs and outputs of the pass, and the scratch memory of matrix products, are not counted. There are
/// two sets of buffers. One set belongs to the chunk that is computed. The other set belongs to the previous chunk
/// until this chunk has returned and its tensors are offloaded. Then the set belongs to the next chunk, which arrives
/// and whose offloaded tensors are fetched. `dtype` is the dtype of the rows.
int64_t buffer_bytes(const ep::RoutingCounts& counts, const ExpertShape& shape, ReuseStrategy memory_reuse,
                     Dtype dtype);
/// Returns the same bound for a rank that, in each chunk, sends at most `sent` rows and computes at most `there` rows.
int64_t buffer_bytes(int64_t sent, int64_t there, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype);

/// Returns the number of chunks to try next if `chunks` chunks need buffers of `bytes` bytes, more than `limit`
/// bytes.
int64_t more_chunks(int64_t chunks, int64_t bytes, int64_t limit);

}  // namespace hexad::moe
