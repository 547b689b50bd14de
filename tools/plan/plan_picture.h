// Picture of a plan as SVG text: nodes, ranks, and the groups that communicate.
#pragma once

#include <string>
#include <vector>

#include "parallel/mesh/layout.h"
#include "tools/plan/group_traffic.h"

namespace hexad::plan {

struct PicturedPlan {
  std::string title;
  const mesh::Layout& layout;
  int64_t ranks_per_node;
  int64_t domain;  // number of ranks that the fast link joins
  std::vector<GroupTraffic> traffic;
};

/// Returns a picture of a layout on nodes that are filled with ranks in order.
/// - Nodes are boxes with a cell for each rank. A rank has the colour of its pipeline stage. If there are more than
///   eight nodes, one node of each kind is drawn, with the number of nodes of that kind. Nodes of one kind have the
///   same stages at the same places.
/// - Each kind of traffic has a row. It shows the first group of the kind under a bracket, the bytes that a rank sends
///   in a step, and the links that carry the bytes.
///
/// If there are too many kinds of nodes, ranks of a node, or ranks of a group, the first ones are drawn and the others
/// are counted.
std::string plan_picture(const PicturedPlan& plan);

}  // namespace hexad::plan
