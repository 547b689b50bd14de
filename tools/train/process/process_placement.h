// Placement of ranks on nodes, and the groups of a layout that suffer from it.
#pragma once

#include <span>
#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::train {

/// A warning if groups of ranks that exchange the most lie across nodes and would not if the ranks were numbered node
/// by node; else empty. `node_of_rank` as ProcessGroup::node_of_rank() of all ranks.
std::string warn_of_placement(const mesh::Layout& layout, std::span<const int> node_of_rank);

}  // namespace hexad::train
