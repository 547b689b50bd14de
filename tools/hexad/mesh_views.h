// Views of a mesh: a table for a terminal, and an SVG picture for documents.
#pragma once

#include <string>

#include "parallel/mesh/layout.h"

namespace hexad::app {

/// Returns a table with every rank's coordinates in both views. Below the table are the groups along each axis whose
/// size is above 1. The groups of ranks that sum gradients of weights outside experts follow.
std::string mesh_table(const mesh::Layout& layout);

/// Returns an SVG picture with two tables for each pipeline stage. Every rank is a cell of both tables.
/// - The left table is the dense view. It has a row for each dp coordinate. A row has a frame for each cp coordinate,
///   and a frame has a cell for each tp coordinate.
/// - The right table is the experts' view. It has a row for each edp coordinate. A row has a frame for each ep
///   coordinate, and a frame has a cell for each etp coordinate.
///
/// The colour of a rank shows its dp coordinate, in both tables. Ranks of one colour work on the same micro-batches.
/// The picture needs no particular font, adapts to dark pages and paints its own background, so it is readable on any
/// page.
std::string mesh_svg(const mesh::Layout& layout);

}  // namespace hexad::app
