// Check that the nodes share a folder that is suitable for checkpoints and datasets.
#pragma once

#include <string>

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of other ranks whose files each rank reads.
inline constexpr int max_folder_peers = 63;

/// Checks writes, fsync, renames, visibility and locks in a new folder inside `folder`. Removes the new folder
/// afterwards. The first rank of each node takes part; on a single node, its first two ranks. Waits at most `patience`
/// seconds for the new folder, for the new files of other ranks, and for their replaced files. Sets `folder` in the
/// reports of these ranks, or only in rank 0's report if the new folder cannot be created. Reports file system errors
/// in this member and does not throw them. Collective over `world`.
void check_folder(RankReport& report, const comm::ProcessGroup& world, device::Device device, const std::string& folder,
                  double patience);

}  // namespace hexad::check_cluster
