// Groups of ranks for which communication is measured.
#pragma once

#include <memory>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Numbers of nodes and of ranks on each node.
struct NodesAndRanks {
  int64_t nodes, ranks_per_node;
};
/// Returns the job's number of nodes, and the number of ranks on each node. Throws Error(usage) if nodes have different
/// numbers of ranks.
NodesAndRanks nodes_of(const comm::ProcessGroup& world);

/// This rank's group for one kind and size.
struct MeasuredGroup {
  GroupKind kind;
  int64_t ranks, nodes;
  std::unique_ptr<comm::ProcessGroup> group;
};

/// Makes the groups of every kind that is possible on this machine. Every rank is in one group of each kind and size.
/// Collective over `world`.
/// - intra: 2, 4, ... and all ranks of a node; all sizes divide the number of ranks of a node
/// - inter: one rank on each of 2, 4, ... and all nodes; all sizes divide the number of nodes
/// - all: all ranks, if there are several nodes with several ranks each
std::vector<MeasuredGroup> measured_groups(const comm::ProcessGroup& world);

}  // namespace hexad::plan
