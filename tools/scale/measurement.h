// Measured steps of the points of an experiment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/telemetry/metrics.h"

namespace hexad::scale {

/// Parts of a step in seconds. The parts add up to the whole step.
struct StepParts {
  double work = 0;       // own work: computation, data, files; mean over ranks
  double imbalance = 0;  // waiting for the rank that works longest
  // Other waiting in communication, by class of traffic; pp includes the bubble.
  std::map<std::string, double> waiting{};

  double total() const;
};

/// Steps of all finished runs of a point.
struct PointMeasurement {
  int64_t runs = 0, steps = 0;  // finished runs, and their steps after the warm-up
  double step_seconds = 0;      // median of the runs' medians
  double least = 0, most = 0;   // smallest and largest median of a run
  double p10 = 0, p90 = 0;      // quantiles over all steps
  double tokens_per_second = 0;
  double work = 0;               // FLOPs of the model in a step, without recomputation
  double peak_memory_bytes = 0;  // peak of the rank that needs the most
  double loss = 0;               // loss of the last step of the first run; NaN: the step has none
  StepParts parts{};             // means over all steps, scaled so that they add up to step_seconds
};

/// Divides a step into parts. Like the waiting times of the metrics, the parts are means over ranks. The imbalance is
/// the longest minus the mean own work of the ranks, but at most the time for which ranks waited. The imbalance is 0 if
/// the metrics have no times of the single ranks.
StepParts parts_of(const telemetry::StepMetrics& step);

/// Summarizes the steps of a point's runs, without the first `warmup_steps` steps of each run. Requires at least one
/// run. Each run must have more than `warmup_steps` steps.
PointMeasurement measurement_of(const std::vector<std::vector<telemetry::StepMetrics>>& runs, int64_t warmup_steps);

}  // namespace hexad::scale
