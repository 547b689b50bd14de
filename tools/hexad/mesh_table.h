// A mesh for people: who is in which group.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Coordinates of every rank in both views, then the groups of every axis with more than one rank in them.
std::string mesh_table(const mesh::Layout& layout);

}  // namespace hexad::app
