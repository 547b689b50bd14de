// A picture of the mesh for documents: SVG text.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Every rank as a cell of two tables for each pipeline stage. On the left the dense view: a row for each dp
/// coordinate, a frame around each group of tp neighbours, cp groups side by side. On the right the experts' view: a
/// row for each edp coordinate, a frame around each etp group, ep side by side. A rank has one colour in both, that of
/// its dp coordinate: ranks of one colour work on the same micro-batches. Needs no fonts, adapts to dark pages and
/// paints its own background, so that it can be read on any.
std::string mesh_svg(const mesh::Layout& layout);

}  // namespace hexad::app
