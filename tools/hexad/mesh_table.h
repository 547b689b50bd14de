// Table of a mesh as text: the ranks of each group.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Returns the coordinates of every rank in both views, then the groups of every axis with more than one rank.
std::string mesh_table(const mesh::Layout& layout);

}  // namespace hexad::app
