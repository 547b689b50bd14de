// Section of a report about the slowest ranks.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report.h"

namespace hexad::telemetry {

/// Returns a section with a table of the ranks that were the slowest in the most steps, at most eight. The result is
/// empty if no step has times of ranks, as in a run with one rank. For each rank, the table counts only the steps in
/// which the rank participated. `parts` contains the number of ranks of each step. The number is estimated from the
/// step's list of slowest ranks if `parts` lacks the number.
std::string ranks_block(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts);

}  // namespace hexad::telemetry
