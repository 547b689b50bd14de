// The part of a report that names the slowest ranks.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report.h"

namespace hexad::telemetry {

/// Returns a section with a table of the ranks whose own work was slowest; empty for a run of one rank. `parts` gives
/// the number of ranks of each step, because a rank takes part only in the steps of layouts that include it.
std::string ranks_block(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts);

}  // namespace hexad::telemetry
