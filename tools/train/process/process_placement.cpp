#include "tools/train/process/process_placement.h"

#include <algorithm>
#include <vector>

#include "framework/base/error.h"

namespace hexad::train {
namespace {

bool crosses_nodes(const mesh::Layout& layout, base::Axis axis, std::span<const int> node_of_rank) {
  for (int rank = 0; rank < layout.world(); ++rank)
    for (const int other : layout.members(axis, rank))
      if (node_of_rank[other] != node_of_rank[rank]) return true;
  return false;
}

}  // namespace

std::string warn_of_placement(const mesh::Layout& layout, std::span<const int> node_of_rank) {
  if (std::ranges::is_sorted(node_of_rank)) return {};
  std::vector<int> node_by_node(node_of_rank.begin(), node_of_rank.end());
  std::ranges::sort(node_by_node);
  std::string keys;
  for (const base::Axis axis : {base::Axis::tp, base::Axis::cp, base::Axis::ep, base::Axis::etp}) {
    if (axis == base::Axis::etp && layout.size(axis) == layout.size(base::Axis::tp)) continue;  // same groups as tp
    if (crosses_nodes(layout, axis, node_of_rank) && !crosses_nodes(layout, axis, node_by_node))
      keys += base::cat(keys.empty() ? "" : ", ", "parallel.", mesh::name_of(axis), " (", layout.size(axis), ")");
  }
  if (keys.empty()) return {};
  return base::cat(
      "the groups of ", keys,
      " span several nodes, because ranks are assigned to nodes in turn; fill one node after the other to keep "
      "these groups inside nodes: srun --distribution=block, mpirun --map-by slot");
}

}  // namespace hexad::train
