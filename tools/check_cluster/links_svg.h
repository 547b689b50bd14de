// Picture of the links between all pairs of nodes or ranks, as SVG text.
#pragma once

#include <string>
#include <vector>

#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of rows of the picture. If there are more nodes, only those with the slowest links are drawn.
inline constexpr size_t most_drawn = 64;

/// Returns a picture with two tables: bandwidth and latency. Rows are senders and columns are receivers: nodes, or
/// ranks if there is a single node. Slower links have darker cells, on a logarithmic scale from the best to the worst
/// measured value. Tooltips show the values. A cell on the diagonal shows the links inside a node. A cell without a
/// measurement is empty. The picture adapts to dark pages and paints its own background.
std::string links_svg(const std::vector<RankReport>& ranks);

}  // namespace hexad::check_cluster
