// The part of a report that names the slowest ranks.
#pragma once

#include <string>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// A section with a table of the ranks that were slowest by their own work; empty for a run of one rank.
std::string ranks_block(const MetricsHistory& history);

}  // namespace hexad::telemetry
