#include "parallel/comm/location.h"

#include <map>
#include <utility>

namespace hexad::comm {

Topology topology_of(std::span<const Location> locations, int rank) {
  Topology topology{.rank = rank, .size = static_cast<int>(locations.size()), .node_of_rank = {}, .node_names = {}};
  const Location& mine = locations[rank];
  std::map<std::pair<std::string_view, int>, int> nodes;  // number of each node, keyed by name and leader
  topology.node_of_rank.reserve(locations.size());
  for (size_t r = 0; r < locations.size(); ++r) {
    const Location& location = locations[r];
    const std::string_view name = location.node.data();
    const auto [found, added] =
        nodes.try_emplace({name, location.leader}, static_cast<int>(topology.node_names.size()));
    if (added) topology.node_names.emplace_back(name);
    topology.node_of_rank.push_back(found->second);
    if (static_cast<int>(r) < rank && location == mine) ++topology.local_rank;
  }
  return topology;
}

}  // namespace hexad::comm
