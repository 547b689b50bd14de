// Number of cores that a rank may use, given its CPU affinity, the other ranks of its node, and its control group.
#pragma once

#include <sched.h>

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::train {

using CoreMask = std::bitset<CPU_SETSIZE>;

/// Numbers of cores available to a node's ranks and to one of these ranks, within the CPU quota.
struct Cores {
  int64_t ranks = 1;       // number of ranks on this node
  int64_t node_cores = 1;  // cores on which at least one of these ranks may run
  int64_t rank_cores = 1;  // this rank's share, at least 1; a core that k ranks share counts as 1/k
  bool operator==(const Cores&) const = default;
};

/// Returns the cores of rank `mine` of a node. `ranks` has the affinity of each rank of the node. `quota` limits the
/// processor time of all these ranks together, in cores.
Cores share_cores(const std::vector<CoreMask>& ranks, size_t mine, std::optional<double> quota);
/// Returns the cores of this rank. `world` is the group of all ranks. Only the ranks of a node exchange their
/// affinities. Collective over the world.
Cores find_cores(const comm::ProcessGroup& world);
/// Returns the cores of this process, which must be the only rank of its node.
Cores find_cores();

/// Returns the smallest CPU quota of this process's control groups and their parents, in cores; none without a limit.
/// `membership` is a file in the format of /proc/self/cgroup. `mounted` is the folder where control groups (version 1
/// or 2) are mounted.
std::optional<double> control_group_quota(const std::filesystem::path& membership,
                                          const std::filesystem::path& mounted);

/// Returns the number of the first processor (hyperthread) of the core to which `processor` belongs. `folder` has the
/// files of Linux's /sys/devices/system/cpu, which name the processors of a core. A processor without a file counts as
/// a separate core.
int64_t core_of(int64_t processor, const std::filesystem::path& folder);

/// Returns a warning if the ranks of the node, with `threads` threads each, have more threads than cores. Otherwise,
/// returns an empty text.
std::string warn_of_threads(const Cores& cores, int64_t threads);

}  // namespace hexad::train
