// Token rows that are joined over chunks of experts (joins_rows()). A joined row is sent in the first chunk with any of
// its experts. The row returns in the last such chunk, as one sum over all chunks.
#pragma once

#include "parallel/ep/received_counts.h"
#include "parallel/ep/routing_indices.h"

namespace hexad::ep {

/// Returns the indices of all chunks. Collective over ExpertGroups::sources(): the ranks exchange the experts of each
/// row. Index tensors are on `device`. Throws Error(communication) if another rank sent wrong experts.
std::vector<ChunkIndices> join_rows(const SlotOrder& order, const ReceivedCounts& counts, const ExpertGroups& groups,
                                    const RoutingOptions& options, device::Device device);

}  // namespace hexad::ep
