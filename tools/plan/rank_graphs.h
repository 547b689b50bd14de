// Gives every rank the task graphs of all ranks, for the simulator.
#pragma once

#include <span>
#include <vector>

#include "framework/schedule/simulator.h"
#include "parallel/mesh/mesh.h"

namespace hexad::plan {

/// Every rank's graph with costs and edges, but without the tasks' names. Collective over `world`.
std::vector<schedule::TaskGraph> graphs_of_all(const schedule::TaskGraph& mine, const comm::ProcessGroup& world,
                                               device::Device device);

/// Ranks that meet in the groups that an MoE layer's tasks name, on the nodes that ProcessGroup::node_of_rank() of all
/// ranks gives. A group's number is its first rank.
schedule::RankGroups rank_groups(const mesh::Layout& layout, std::span<const int> node_of_rank);

}  // namespace hexad::plan
