// Data for the charts of reports and comparisons: a selection of the history, as JSON.
#pragma once

#include <string>
#include <vector>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Returns the indices of the steps to draw, in ascending order. Selects all steps if there are at most `limit`,
/// otherwise about `limit` steps, including the first and the last. The steps are divided into intervals. The steps
/// with the lowest and the highest loss of each interval are kept, so spikes remain visible. A loss that is not finite
/// counts as the highest.
std::vector<size_t> thin(const std::vector<StepMetrics>& steps, size_t limit);

/// Returns the indices of at most `count` steps with expert loads, evenly spaced, including the first and the last such
/// step. If `count` is 1, returns only the last such step.
std::vector<size_t> expert_load_snapshots(const std::vector<StepMetrics>& steps, size_t count);

/// Returns the columns of the charts as a JSON object. A column of numbers from the steps in metrics.jsonl has the same
/// key as in that file. Values that are not finite become null. Missing values become 0 in `memory` and `comm`, and
/// null elsewhere. `memory_chart` lists the columns of `memory` that the chart shows. Each entry has the name of the
/// column, its colour (a variable of report.css) and `stacked`. `stacked` is false if the column is not part of the
/// memory in use. The held-out loss has one curve for each text. '<' is written as \u003c, so the result may be put
/// into a <script> element. The steps of `history` must be in ascending order.
std::string report_data(const MetricsHistory& history);

/// Returns `text` as a JSON string that may be put into a <script> element.
std::string json_text(const std::string& text);

}  // namespace hexad::telemetry
