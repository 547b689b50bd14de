// Section of a report about the slowest ranks.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report.h"

namespace hexad::telemetry {

/// Returns a section with a table of the ranks whose own work was slowest; empty if the run has one rank. The number of
/// ranks of each step is taken from `parts`, because a rank participates only in steps of layouts that include it.
std::string ranks_block(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts);

}  // namespace hexad::telemetry
