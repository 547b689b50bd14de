// Picture of the links between all pairs, as SVG text.
#pragma once

#include <string>
#include <vector>

#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of rows of the picture. Of more nodes, those with the slowest links are drawn.
inline constexpr size_t most_drawn = 64;

/// Returns a picture with two tables: bandwidth and latency. A row is the sender, a column the receiver: a node, or a
/// rank if there is a single node. Cells of slow links are darker, on a logarithmic scale from the best to the worst
/// measured value; tooltips have the figures. A cell on the diagonal holds the links inside a node. A cell without a
/// measurement is empty. The picture adapts to dark pages and paints its own background.
std::string links_svg(const std::vector<RankReport>& ranks);

}  // namespace hexad::check_cluster
