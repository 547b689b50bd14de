// Metrics of the runs of an experiment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::scale {

struct RunMetrics {
  std::vector<telemetry::StepMetrics> steps{};
  std::string problem{};  // reason why the steps cannot be used as a measurement; empty if they are complete
};

/// Reads the metrics of a run. The metrics are complete if every line is readable and the steps from 1 to `steps` occur
/// once each, in this order.
RunMetrics read_run_metrics(const std::string& run_dir, int64_t steps);

}  // namespace hexad::scale
