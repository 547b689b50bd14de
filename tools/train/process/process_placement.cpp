#include "tools/train/process/process_placement.h"

#include <algorithm>
#include <set>
#include <vector>

#include "framework/base/error.h"

namespace hexad::train {
namespace {

using base::Axis;

bool crosses_nodes(const mesh::Layout& layout, Axis axis, std::span<const int> node_of_rank) {
  bool crosses = false;
  const auto group_of = [&](int rank) { return layout.members(axis, rank); };
  mesh::for_each_group(layout.world(), group_of, [&](const std::vector<int>& ranks) {
    for (const int rank : ranks) crosses |= node_of_rank[rank] != node_of_rank[ranks.front()];
  });
  return crosses;
}

// True if the experts have no separate groups: ep is 1, and etp has the size of tp. A model without experts has such a
// layout, too.
bool has_plain_experts(const mesh::Layout& layout) {
  return layout.size(Axis::ep) == 1 && layout.size(Axis::etp) == layout.size(Axis::tp);
}

// True if the groups of etp need no mention, because the experts are plain or because tp has the same groups. Groups of
// the same size may differ, because an order of axes may put ep before tp.
bool omits_etp(const mesh::Layout& layout) {
  if (has_plain_experts(layout)) return true;
  for (int rank = 0; rank < layout.world(); ++rank)
    if (layout.members(Axis::etp, rank) != layout.members(Axis::tp, rank)) return false;
  return true;
}

std::string named(const mesh::Layout& layout, Axis axis) {
  return base::cat("parallel.", mesh::name_of(axis), " (", layout.size(axis), ")");
}

// Returns the layout with the same sizes in which tp varies fastest. If this makes the position of pp illegal, pp
// varies slowest.
mesh::Layout with_tp_first(mesh::Sizes sizes, int world) {
  const mesh::AxisOrder first = mesh::AxisOrder(sizes.order).with(Axis::tp, 0);
  try {
    sizes.order = first.to_string();
    return {sizes, world};
  } catch (const mesh::IllegalLayout&) {
    sizes.order = first.with(Axis::pp, first.axes().size() - 1).to_string();
    return {sizes, world};
  }
}

}  // namespace

std::string warn_of_placement(const mesh::Layout& layout, std::span<const int> node_of_rank) {
  if (std::ranges::is_sorted(node_of_rank)) return {};
  std::vector<int> node_by_node(node_of_rank.begin(), node_of_rank.end());
  std::ranges::sort(node_by_node);
  std::string keys;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::ep, Axis::etp}) {
    if (axis == Axis::etp && omits_etp(layout)) continue;
    if (crosses_nodes(layout, axis, node_of_rank) && !crosses_nodes(layout, axis, node_by_node))
      keys += (keys.empty() ? "" : ", ") + named(layout, axis);
  }
  if (keys.empty()) return {};
  return base::cat(
      "the groups of ", keys,
      " span several nodes, because ranks are not numbered node by node; fill one node after the other to keep "
      "these groups inside nodes: srun --distribution=block, mpirun --map-by slot");
}

std::string warn_of_order(const mesh::Sizes& sizes, std::span<const int> node_of_rank, std::string_view places) {
  if (sizes.order.empty()) return {};
  const auto world = static_cast<int>(node_of_rank.size());
  const mesh::Layout layout(sizes, world), other = with_tp_first(sizes, world);
  std::string keys;
  for (const Axis axis : {Axis::tp, Axis::etp})
    if (crosses_nodes(layout, axis, node_of_rank) && !crosses_nodes(other, axis, node_of_rank))
      keys += (keys.empty() ? "" : ", ") + named(layout, axis);
  if (keys.empty()) return {};
  return base::cat("the groups of ", keys, " span several ", places, ", because of parallel.order (", sizes.order,
                   "); parallel.order: ", other.order(), " keeps them inside ", places);
}

std::vector<AxisSpread> spread_of_axes(const mesh::Layout& layout, std::span<const int> node_of_rank) {
  const bool no_etp = omits_etp(layout), no_edp = has_plain_experts(layout);
  std::vector<AxisSpread> all;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::ep, Axis::etp, Axis::dp, Axis::edp, Axis::pp}) {
    if (layout.size(axis) == 1 || (axis == Axis::etp && no_etp) || (axis == Axis::edp && no_edp)) continue;
    int64_t most = 1;
    const auto group_of = [&](int rank) { return layout.members(axis, rank); };
    mesh::for_each_group(layout.world(), group_of, [&](const std::vector<int>& ranks) {
      std::set<int> nodes;
      for (const int rank : ranks) nodes.insert(node_of_rank[rank]);
      most = std::max(most, std::ssize(nodes));
    });
    all.push_back({axis, most});
  }
  return all;
}

}  // namespace hexad::train
