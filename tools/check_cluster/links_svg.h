// Picture of the links between all pairs of nodes or ranks, as SVG text.
#pragma once

#include <string>
#include <vector>

#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Largest number of rows of a table. If there are more nodes (or ranks), only the nodes (or ranks) with the slowest
/// links are drawn.
inline constexpr size_t max_drawn = 64;

/// Returns a picture with two tables: bandwidth and latency. Rows are senders and columns are receivers: nodes, or
/// ranks if there is a single node. Slower links have darker cells, on a logarithmic scale. The scale begins at the
/// best measured value and ends at the worst measured value, but covers at least a factor of 4. Tooltips show the
/// values. If rows are nodes, a cell shows a median, and a cell on the diagonal shows the links inside a node. A cell
/// without a measurement is grey. The picture adapts to dark pages and paints its own background.
std::string links_svg(const std::vector<RankReport>& ranks);

}  // namespace hexad::check_cluster
