// Number of cores that a rank may use: what its affinity, the other ranks of its node and its control group leave it.
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

/// Cores of a node as one of its ranks sees them.
struct Cores {
  int64_t ranks = 1;    // of this node
  int64_t of_node = 1;  // on which any of them may run
  int64_t of_rank = 1;  // this rank's share: a core of k ranks counts 1/k; at least one
  bool operator==(const Cores&) const = default;
};

/// For rank `mine` of those of a node, which together may use `quota` cores' time.
Cores share_cores(const std::vector<CoreMask>& ranks, size_t mine, std::optional<double> quota);
/// Collective over the world.
Cores find_cores(const comm::World& world);
/// For a process that knows no other ranks.
Cores find_cores();

/// Cores' time that control groups grant this process: the least that one of them says; none: no limit. `membership` is
/// /proc/self/cgroup or the like, `mounted` where control groups are mounted, version 1 or 2.
std::optional<double> control_group_quota(const std::filesystem::path& membership,
                                          const std::filesystem::path& mounted);

/// Warning if each rank computes with `threads` threads; empty if there is a core for each.
std::string warn_of_threads(const Cores& cores, int64_t threads);

}  // namespace hexad::train
