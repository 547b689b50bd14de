// Exchange of task graphs, which the simulator needs from all ranks.
#pragma once

#include <span>
#include <vector>

#include "framework/schedule/simulator.h"
#include "parallel/mesh/mesh.h"

namespace hexad::plan {

/// Returns every rank's graph with costs and edges, but without the tasks' names. Collective over `group`.
std::vector<schedule::TaskGraph> graphs_of_all(const schedule::TaskGraph& mine, const comm::ProcessGroup& group,
                                               device::Device device);

/// Ranks whose passes through MoE layers meet in collectives, directly or through other ranks.
struct Meeting {
  const comm::ProcessGroup* group;  // a group of the mesh that contains them
  std::vector<int> ranks;           // ranks of the world, in the order of the group
};
/// Returns the meeting of this rank. Its group is that of the ep x etp ranks, the tp group or, in layouts in which
/// these overlap, all ranks.
Meeting meeting_of(const mesh::Mesh& mesh);

/// Returns the ranks in the groups named by tasks of an MoE layer. `node_of_rank` is ProcessGroup::node_of_rank() of
/// all ranks. The number of a group is its first rank.
schedule::RankGroups rank_groups(const mesh::Layout& layout, std::span<const int> node_of_rank);
/// Returns the groups among `ranks`, which contain all members of their groups. Rank i of the result is ranks[i].
schedule::RankGroups groups_among(std::span<const int> ranks, const schedule::RankGroups& of_all);

}  // namespace hexad::plan
