// Draws the mesh as an SVG picture, for documents.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Returns an SVG picture with two tables for each pipeline stage. Every rank is a cell of both tables.
/// - The left table is the dense view: a row for each dp coordinate, in it a frame for each cp coordinate, in it a cell
///   for each tp coordinate.
/// - The right table is the experts' view: a row for each edp coordinate, in it a frame for each ep coordinate, in it a
///   cell for each etp coordinate.
///
/// The colour of a rank shows its dp coordinate, in both tables. Ranks of one colour work on the same micro-batches.
/// The picture needs no particular font, adapts to dark pages and paints its own background, so it is readable on any
/// page.
std::string mesh_svg(const mesh::Layout& layout);

}  // namespace hexad::app
