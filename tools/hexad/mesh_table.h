// Text that shows a mesh: coordinates of ranks, and ranks of groups.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Returns a table with every rank's coordinates in both views. The groups along each axis with more than one rank
/// follow, and then the groups of ranks that sum gradients of weights outside experts.
std::string mesh_table(const mesh::Layout& layout);

}  // namespace hexad::app
