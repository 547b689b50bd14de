// Arrangement of the ranks of a group by node, for exchanges in two levels: inside nodes and between nodes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Returns the ranks 0 .. size - 1.
std::vector<int> first_ranks(int size);
/// Returns the node of each of `ranks`. `node_of_rank` has the node of every rank of the group to which `ranks` belong.
std::vector<int> nodes_of(std::span<const int> ranks, std::span<const int> node_of_rank);

/// Ranks of a group, arranged by node and place. The place of a rank is its index among the ranks of its node. Nodes
/// are numbered in the order of their lowest ranks.
class NodeGrid {
 public:
  /// Makes the grid. `node_of_rank` is ProcessGroup::node_of_rank() of the group.
  explicit NodeGrid(std::span<const int> node_of_rank);

  int nodes() const { return static_cast<int>(ranks_.size()); }
  /// Returns the number of ranks on each node; 0 if this number differs between nodes.
  int places() const { return places_; }
  /// True if there are several nodes and several places. An exchange can then be divided into an exchange inside nodes
  /// and an exchange between nodes.
  bool two_levels() const { return nodes() > 1 && places_ > 1; }
  int node(int rank) const { return spots_[rank].node; }
  int place(int rank) const { return spots_[rank].place; }
  int rank(int node, int place) const { return ranks_[node][place]; }
  const std::vector<int>& ranks(int node) const { return ranks_[node]; }

 private:
  struct Spot {
    int node, place;
  };
  std::vector<Spot> spots_;              // node and place of each rank
  std::vector<std::vector<int>> ranks_;  // rank at each node and place
  int places_ = 0;
};

/// Groups of this rank for an exchange in two levels.
struct NodeGroups {
  std::unique_ptr<ProcessGroup> inside;  // all ranks on the node of this rank, ordered by place
  std::unique_ptr<ProcessGroup> across;  // all ranks that have the place of this rank, ordered by node
};

/// Splits `group` by node. Returns null on all ranks if `group` cannot be arranged in two levels. Collective over
/// `group`, which must outlive the new groups.
std::unique_ptr<NodeGroups> split_by_node(const ProcessGroup& group);

}  // namespace hexad::comm
