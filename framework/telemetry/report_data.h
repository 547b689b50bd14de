// Data of report.html's charts: the history, thinned, as JSON.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Indices of at most about `limit` of the steps, ascending, first and last among them. Keeps the lowest and the
/// highest loss of every stretch, so no spike disappears; a loss that is not finite counts as the highest.
std::vector<size_t> thin(const std::vector<StepMetrics>& steps, size_t limit);

/// Indices of at most `count` steps that carry expert loads, evenly spread, the first and last such among them.
std::vector<size_t> expert_load_snapshots(const std::vector<StepMetrics>& steps, size_t count);

/// Columns named as in metrics.jsonl, values that are not finite, or not there, as null; of held-out loss a curve for
/// each text. '<' is written \u003c, so the text can stand inside a <script> element. `steps` of the history must be
/// ascending.
std::string report_data(const MetricsHistory& history);

/// `text` as JSON that can stand there, too.
std::string json_text(const std::string& text);

}  // namespace hexad::telemetry
