// Number of cores that a rank may use. The limits are its affinity, the other ranks of its node, and its control group.
#pragma once

#include <sched.h>

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/world.h"

namespace hexad::train {

using CoreMask = std::bitset<CPU_SETSIZE>;

/// Numbers of cores of a node and of one of its ranks.
struct Cores {
  int64_t ranks = 1;    // number of ranks on this node
  int64_t of_node = 1;  // cores on which at least one of these ranks may run
  int64_t of_rank = 1;  // this rank's share, at least one: a core that k ranks share counts 1/k
  bool operator==(const Cores&) const = default;
};

/// Returns the cores for rank `mine` of a node. All ranks of the node together may use the time of `quota` cores.
Cores share_cores(const std::vector<CoreMask>& ranks, size_t mine, std::optional<double> quota);
/// Returns the cores of this rank. Collective over the world.
Cores find_cores(const comm::World& world);
/// Returns the cores of a process without other ranks.
Cores find_cores();

/// Returns the smallest quota of this process's control groups, in cores; none without a limit. `membership` is
/// /proc/self/cgroup or a file like it. `mounted` is the folder where control groups are mounted, version 1 or 2.
std::optional<double> control_group_quota(const std::filesystem::path& membership,
                                          const std::filesystem::path& mounted);

/// Returns a warning if the node has fewer cores than threads, with `threads` threads on each rank; otherwise empty.
std::string warn_of_threads(const Cores& cores, int64_t threads);

}  // namespace hexad::train
