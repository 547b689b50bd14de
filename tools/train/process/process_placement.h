// Warns if the placement of ranks on nodes makes communication within groups slow.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/mesh/layout.h"

namespace hexad::train {

/// Returns a warning if tp, cp, ep or etp groups span nodes, but would not if ranks were numbered node by node.
/// Otherwise, returns an empty text. `node_of_rank` is ProcessGroup::node_of_rank() of all ranks.
std::string warn_of_placement(const mesh::Layout& layout, std::span<const int> node_of_rank);

/// Returns a warning if tp or etp groups span nodes, but would not if parallel.order began with tp. Returns an empty
/// text otherwise, and without an explicit parallel.order. `node_of_rank` has the node of every rank. If `node_of_rank`
/// has places other than nodes, `places` is the name of these places, such as "domains".
std::string warn_of_order(const mesh::Sizes& sizes, std::span<const int> node_of_rank,
                          std::string_view places = "nodes");

/// Largest number of nodes that a group along an axis spans.
struct AxisSpread {
  base::Axis axis;
  int64_t nodes;
};
/// Returns the spread of each axis that has several ranks. Omits etp if its groups are those of tp. Omits etp and edp
/// if ep is 1 and etp has the size of tp, as in a model without experts. `node_of_rank` is as in warn_of_order().
std::vector<AxisSpread> spread_of_axes(const mesh::Layout& layout, std::span<const int> node_of_rank);

}  // namespace hexad::train
