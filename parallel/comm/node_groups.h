// The ranks of a group by node, for exchanges in two levels.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Ranks of a group as a grid of nodes and places. The place of a rank is the number of lower ranks on its node. Nodes
/// are numbered in the order of their first ranks.
class NodeGrid {
 public:
  /// `node_of_rank`: as in ProcessGroup::node_of_rank().
  explicit NodeGrid(std::span<const int> node_of_rank);

  int nodes() const { return static_cast<int>(ranks_.size()); }
  /// Ranks on each of the nodes; 0 when these differ.
  int places() const { return places_; }
  /// True if there are several nodes and places: an exchange can be split into one inside nodes and one between.
  bool two_levels() const { return nodes() > 1 && places_ > 1; }
  int node(int rank) const { return spots_[rank].node; }
  int place(int rank) const { return spots_[rank].place; }
  int rank(int node, int place) const { return ranks_[node][place]; }
  const std::vector<int>& ranks(int node) const { return ranks_[node]; }

 private:
  struct Spot {
    int node, place;
  };
  std::vector<Spot> spots_;              // by rank
  std::vector<std::vector<int>> ranks_;  // by node, place
  int places_ = 0;
};

/// This rank's groups in the two levels of another group.
struct NodeGroups {
  std::unique_ptr<ProcessGroup> inside;  // ranks of its node, by place
  std::unique_ptr<ProcessGroup> across;  // ranks of its place, by node
};

/// A collective call over `group`, which outlives the new ones; null, on all ranks alike, when it has no two levels.
std::unique_ptr<NodeGroups> split_by_node(const ProcessGroup& group);

}  // namespace hexad::comm
