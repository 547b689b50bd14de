// Exchange of task graphs between ranks. The simulator needs the graphs of all ranks.
#pragma once

#include <span>
#include <vector>

#include "framework/schedule/simulator.h"
#include "parallel/mesh/mesh.h"

namespace hexad::plan {

/// Returns every rank's graph with costs and edges, but without the tasks' names. Collective over `group`.
std::vector<schedule::TaskGraph> graphs_of_all(const schedule::TaskGraph& mine, const comm::ProcessGroup& group,
                                               device::Device device);

/// Group of ranks whose passes through MoE layers have collectives only with each other.
struct Meeting {
  const comm::ProcessGroup* group;  // a group of the mesh
  std::vector<int> ranks;           // members of `group` as ranks of the world, in the order of the group
};
/// Returns the meeting of this rank. The group of the meeting is the first group of this list that applies:
/// - the ep x etp group, if it contains the tp groups of its members
/// - the tp group, if it contains the ep x etp groups of its members
/// - the world
Meeting meeting_of(const mesh::Mesh& mesh);

/// Returns the number of every rank's group, for each kind of group that the tasks of an MoE layer use. `node_of_rank`
/// is ProcessGroup::node_of_rank() of all ranks. The number of a group is its first rank, or its node for
/// schedule::node_group.
schedule::RankGroups rank_groups(const mesh::Layout& layout, std::span<const int> node_of_rank);
/// Returns the largest number of ranks on one node. `node_of_rank` is as in rank_groups().
int64_t max_ranks_of_node(std::span<const int> node_of_rank);
/// Returns `of_all` restricted to `ranks`. Element i of a list in the result is the number of the group of ranks[i].
/// `ranks` must contain all members of a group or none, except for the groups of nodes (schedule::node_group).
schedule::RankGroups groups_among(std::span<const int> ranks, const schedule::RankGroups& of_all);

}  // namespace hexad::plan
