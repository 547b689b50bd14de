// The part of a run directory that its reports are about.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "framework/telemetry/metrics_json.h"
#include "tools/train/report/run_history.h"

namespace hexad::train {

struct TrainedSteps {
  telemetry::MetricsHistory metrics;
  RunHistory history;            // of the starts that trained a step; the others say nothing of these
  std::filesystem::path recipe;  // of the newest of them

  /// The step after which the newest start went on.
  int64_t newest_start() const { return history.starts.empty() ? 0 : history.starts.back().run.first_step; }
};

/// Throws Error(usage) when `dir` is no run directory, Error(data) when it has no metrics.
TrainedSteps trained_steps(const std::filesystem::path& dir);

/// The last part of the path, also of "runs/a/" and ".".
std::string folder_name(const std::filesystem::path& dir);
/// "1 rank", "2 ranks".
std::string counted(int64_t n, std::string_view thing);

}  // namespace hexad::train
