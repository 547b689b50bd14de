// Check that the nodes share a folder as checkpoints and datasets need it.
#pragma once

#include <string>

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of other ranks whose files a rank reads.
inline constexpr int most_folder_peers = 63;

/// Checks writes, fsync, renames, visibility and locks in a new folder inside `folder`, which is removed afterwards.
/// The first rank of each node takes part; on a single node, its first two ranks. Waits at most `patience` seconds for
/// the files of other ranks. Sets `folder` of the reports of these ranks; only that of rank 0 if the new folder cannot
/// be made. Errors of the file system are figures and are not thrown. Collective over `world`.
void check_folder(RankReport& report, const comm::ProcessGroup& world, device::Device device, const std::string& folder,
                  double patience);

}  // namespace hexad::check_cluster
