// Picture of a plan as SVG text: nodes, ranks, and the groups that communicate.
#pragma once

#include <string>
#include <vector>

#include "parallel/mesh/layout.h"
#include "tools/plan/group_bytes.h"

namespace hexad::plan {

struct PicturedPlan {
  std::string title;
  const mesh::Layout& layout;
  int64_t ranks_per_node;
  int64_t domain;  // number of ranks that the fast link connects
  std::vector<GroupBytes> traffic;
};

/// Returns a picture of a layout on nodes that are filled with ranks in order.
/// - Nodes are boxes with a cell for each rank. The colour of a cell is the rank's pipeline stage. Of more than eight
///   nodes, only one node of each kind is drawn, with the number of nodes of that kind. Nodes of one kind have the same
///   stages in the same positions.
/// - Below the nodes, each kind of group in `traffic` has a row. The row shows the ranks of the kind's first group, the
///   bytes that a rank sends in a step, and the links that carry the bytes.
///
/// There may be too many kinds of nodes, ranks of a node, or ranks of a group. The picture then shows only the first
/// items, and the number of omitted items.
std::string plan_picture(const PicturedPlan& plan);

}  // namespace hexad::plan
