// Picture of the mesh as SVG text, for documents.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Returns a picture with every rank as a cell of two tables for each pipeline stage.
/// - The left table is the dense view: a row for each dp coordinate, a frame around each tp group, cp groups side by
///   side.
/// - The right table is the experts' view: a row for each edp coordinate, a frame around each etp group, ep side by
///   side.
///
/// A rank has the same colour in both tables, that of its dp coordinate. Ranks of one colour work on the same
/// micro-batches. The picture needs no fonts, adapts to dark pages and paints its own background, so it is readable on
/// any page.
std::string mesh_svg(const mesh::Layout& layout);

}  // namespace hexad::app
