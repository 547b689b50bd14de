#include "parallel/comm/node_groups.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace hexad::comm {

std::vector<int> first_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> nodes_of(std::span<const int> ranks, std::span<const int> node_of_rank) {
  std::vector<int> nodes;
  nodes.reserve(ranks.size());
  for (const int r : ranks) nodes.push_back(node_of_rank[r]);
  return nodes;
}

NodeGrid::NodeGrid(std::span<const int> node_of_rank) {
  std::unordered_map<int, size_t> numbers;  // index of each node in the grid, keyed by its number in node_of_rank
  for (size_t r = 0; r < node_of_rank.size(); ++r) {
    const auto [found, added] = numbers.try_emplace(node_of_rank[r], ranks_.size());
    const size_t node = found->second;
    if (added) ranks_.emplace_back();
    spots_.push_back({static_cast<int>(node), static_cast<int>(ranks_[node].size())});
    ranks_[node].push_back(static_cast<int>(r));
  }
  const bool even = std::all_of(ranks_.begin(), ranks_.end(),
                                [&](const auto& of_node) { return of_node.size() == ranks_[0].size(); });
  if (even && !ranks_.empty()) places_ = static_cast<int>(ranks_[0].size());
}

std::unique_ptr<NodeGroups> split_by_node(const ProcessGroup& group) {
  const NodeGrid grid(group.node_of_rank());
  if (!grid.two_levels()) return nullptr;
  const int node = grid.node(group.rank()), place = grid.place(group.rank());
  std::vector<int> of_place;
  for (int n = 0; n < grid.nodes(); ++n) of_place.push_back(grid.rank(n, place));
  auto inside = group.subgroup(grid.ranks(node), group.traffic(), group.name() + " inside a node");
  auto across = group.subgroup(of_place, group.traffic(), group.name() + " across nodes");
  return std::make_unique<NodeGroups>(NodeGroups{std::move(inside), std::move(across)});
}

}  // namespace hexad::comm
