// Data of report.html's charts: the history, thinned, as JSON.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Returns ascending indices of about `limit` steps at most, including the first and the last. Keeps the lowest and the
/// highest loss of every interval, so that no spike disappears. A loss that is not finite counts as the highest.
std::vector<size_t> thin(const std::vector<StepMetrics>& steps, size_t limit);

/// Returns indices of at most `count` steps with expert loads, evenly spread, including the first and the last of them.
std::vector<size_t> expert_load_snapshots(const std::vector<StepMetrics>& steps, size_t count);

/// Returns columns with the names of metrics.jsonl; missing and non-finite values are null. The held-out loss has a
/// curve for each text. '<' is written \u003c, so that the text can be put into a <script> element. The steps of
/// `history` must be ascending.
std::string report_data(const MetricsHistory& history);

/// Returns `text` as JSON that can be put into a <script> element.
std::string json_text(const std::string& text);

}  // namespace hexad::telemetry
