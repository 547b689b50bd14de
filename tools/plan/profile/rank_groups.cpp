#include "tools/plan/profile/rank_groups.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

// Returns the powers of two that divide `n`, starting at 2, and `n` itself.
std::vector<int64_t> parts_of(int64_t n) {
  std::vector<int64_t> parts;
  for (int64_t size = 2; size < n; size *= 2)
    if (n % size == 0) parts.push_back(size);
  if (n > 1) parts.push_back(n);
  return parts;
}

}  // namespace

NodesAndRanks nodes_of(const comm::ProcessGroup& world) {
  const std::vector<int>& nodes = world.node_of_rank();
  std::vector<int64_t> ranks(static_cast<size_t>(*std::max_element(nodes.begin(), nodes.end())) + 1);
  for (int node : nodes) ++ranks[node];
  const auto [fewest, most] = std::minmax_element(ranks.begin(), ranks.end());
  if (*fewest != *most)
    base::fail(base::ExitCode::usage, "nodes have ", *fewest, " to ", *most,
               " ranks; start the same number of ranks on each node");
  return {static_cast<int64_t>(ranks.size()), *most};
}

std::vector<MeasuredGroup> measured_groups(const comm::ProcessGroup& world) {
  const auto [nodes, ranks_per_node] = nodes_of(world);
  const std::vector<int>& node_of_rank = world.node_of_rank();
  const int node = node_of_rank[world.rank()];
  const int64_t place = std::count(node_of_rank.begin(), node_of_rank.begin() + world.rank(), node);
  std::vector<MeasuredGroup> groups;
  const auto add = [&](GroupKind kind, int64_t ranks, int64_t spread, int64_t color, const std::string& name) {
    groups.push_back(
        {kind, ranks, spread, world.split(static_cast<int>(color), world.rank(), comm::TrafficClass::ep, name)});
  };
  for (int64_t size : parts_of(ranks_per_node))
    add(GroupKind::intra, size, 1, node * ranks_per_node + place / size, "intra");
  for (int64_t size : parts_of(nodes)) add(GroupKind::inter, size, size, node / size * ranks_per_node + place, "inter");
  if (nodes > 1 && ranks_per_node > 1) add(GroupKind::all, nodes * ranks_per_node, nodes, 0, "all");
  return groups;
}

}  // namespace hexad::plan
