// Text output of `hexad check-cluster`.
#pragma once

#include <string>
#include <vector>

#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {

/// Returns a table of the measured values: minimum, median and maximum over ranks or links.
std::string figures_table(const std::vector<RankReport>& ranks);
/// Returns one line for each finding, or a line saying that there are none.
std::string findings_list(const std::vector<Finding>& findings);

}  // namespace hexad::check_cluster
