// Exchange of task graphs between ranks. The simulator needs the graphs of all ranks.
#pragma once

#include <span>
#include <vector>

#include "framework/schedule/simulator.h"
#include "parallel/mesh/mesh.h"

namespace hexad::plan {

/// Returns every rank's graph with costs and edges, but without the tasks' names. Collective over `world`.
std::vector<schedule::TaskGraph> graphs_of_all(const schedule::TaskGraph& mine, const comm::ProcessGroup& world,
                                               device::Device device);

/// Returns the ranks of each group that tasks of an MoE layer name. `node_of_rank` is ProcessGroup::node_of_rank() of
/// all ranks. A group's number is its first rank.
schedule::RankGroups rank_groups(const mesh::Layout& layout, std::span<const int> node_of_rank);

}  // namespace hexad::plan
