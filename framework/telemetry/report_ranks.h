// Section of a report about the slowest ranks.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/report.h"

namespace hexad::telemetry {

/// Returns a section with a table of at most eight ranks: those that were the slowest in the most steps. The result is
/// empty if no step has times of ranks, as in a run with one rank. The number of ranks of each step is taken from
/// `parts` if it is known there, because a rank participates only in steps of layouts that include it.
std::string ranks_block(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts);

}  // namespace hexad::telemetry
