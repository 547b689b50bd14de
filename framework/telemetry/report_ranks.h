// The part of a report that names the slowest ranks.
#pragma once

#include <string>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Returns a section with a table of the ranks whose own work was slowest; empty for a run of one rank.
std::string ranks_block(const MetricsHistory& history);

}  // namespace hexad::telemetry
