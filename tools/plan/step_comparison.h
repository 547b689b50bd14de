// A table that compares a predicted step with the measured steps of a run.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/measured_step.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Row of the table. An empty optional means that the value is unknown.
struct ComparedRow {
  enum class Unit : uint8_t { seconds, bytes };

  std::string name;
  Unit unit;
  std::optional<double> predicted, measured;

  /// Returns measured / predicted; none if either is unknown, or the prediction is zero.
  std::optional<double> ratio() const;
  /// Returns name, prediction, measurement and ratio as text.
  std::array<std::string, 4> cells() const;
};

/// Compares these parts of a step. Omits classes of traffic that neither the prediction nor the run has.
/// - step time: median of the run's timed steps
/// - own work: time in which a rank does not wait in communication; measured values include gaps between kernels; mean
///   over ranks
/// - waiting: in total, by class of traffic (exposed communication), and idle; mean over ranks. The prediction counts
///   waits for late ranks and for other pipeline stages as idle time. The measurement has no idle time, because it
///   counts these waits as communication of a class
/// - bytes that all ranks send, by class of traffic
/// - memory peak of the rank that needs the most; the prediction is `memory` bytes
std::vector<ComparedRow> compare(const StepForecast& forecast, double memory, const MeasuredStep& measured);

}  // namespace hexad::plan
