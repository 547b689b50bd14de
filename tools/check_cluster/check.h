// Check of a cluster by all of its ranks (docs/check-cluster.md).
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

struct CheckOptions {
  double seconds = 30;   // approximate time of the measurements
  std::string folder{};  // shared folder to check; empty: none
  double patience = 5;   // seconds after which another rank's file counts as missing or stale
  int threads = 1;       // number of threads that the kernels use
  std::string host{};    // name of this rank's node
  bool card = false;     // true to measure products on the GPUs, too
  int place = 0;         // index of this rank on its node; selects the GPU
};

/// Measures the cluster. Returns the reports of all ranks on rank 0, and an empty list on all other ranks. Collective
/// over `world`; `seconds`, `card`, `folder` and `patience` must be the same on all ranks.
std::vector<RankReport> measure_cluster(const comm::ProcessGroup& world, const CheckOptions& options);

}  // namespace hexad::check_cluster
