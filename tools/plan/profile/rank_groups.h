// The groups of ranks whose communication is measured.
#pragma once

#include <memory>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Nodes and ranks on each. Throws Error(usage) when nodes have different numbers of ranks.
struct Machine {
  int64_t nodes, ranks_per_node;
};
Machine machine_of(const comm::ProcessGroup& world);

/// One of the groups of a kind: the one that this rank is in.
struct MeasuredGroup {
  GroupKind kind;
  int64_t ranks, nodes;
  std::unique_ptr<comm::ProcessGroup> group;
};

/// Collective over `world`. Groups of every kind that this machine has: intra of 2, 4, ... and all ranks of a node,
/// inter of one rank on 2, 4, ... and all nodes (numbers that divide), and all ranks. Every rank is in one group of
/// each.
std::vector<MeasuredGroup> measured_groups(const comm::ProcessGroup& world);

}  // namespace hexad::plan
