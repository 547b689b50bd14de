// Metrics and starts of a run's trained steps, for reports.
#pragma once

#include <filesystem>
#include <string>

#include "framework/telemetry/metrics_json.h"
#include "tools/train/report/run_history.h"

namespace hexad::train {

struct TrainedSteps {
  telemetry::MetricsHistory metrics;
  RunHistory history;            // only the starts that trained a step
  std::filesystem::path recipe;  // recipe of the newest of these starts; recipe.yaml if that file is missing

  /// Returns the last step before the newest start; 0 if no start is recorded.
  int64_t newest_start() const { return history.starts.empty() ? 0 : history.starts.back().run.first_step; }
};

/// Reads the metrics and starts of a run. Throws Error(usage) if `dir` is not a run directory, and Error(data) if `dir`
/// has no metrics or if its history.json cannot be parsed.
TrainedSteps trained_steps(const std::filesystem::path& dir);

/// Returns the last component of the path, also for "runs/a/" (a) and "." (the working directory's name).
std::string folder_name(const std::filesystem::path& dir);

}  // namespace hexad::train
