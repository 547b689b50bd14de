// Decisions about the schedule of the MoE layers while a run trains.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <spdlog/logger.h>

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/report.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/progress.h"
#include "tools/train/report/run_trace.h"

namespace hexad::train {

/// A run that is about to begin, its checkpoint loaded. All of it outlives the adviser.
struct AdvisedRun {
  const Recipe& recipe;
  ModelInstance& instance;
  const comm::World& world;
  Progress& progress;  // its texts of the schedule are the adviser's, for checkpoints
  RunTrace& trace;
  spdlog::logger& log;  // of this rank
};

/// Chooses what the recipe leaves open of schedule.moe, records the step that schedule.trace names, and says what it
/// predicts. tools/plan has one; a run without one takes the recipe's schedule as it stands. Collective.
class ScheduleAdviser {
 public:
  virtual ~ScheduleAdviser() = default;
  /// Before a step's work.
  virtual void begin_step(int64_t step) = 0;
  /// After it. Rank 0's metrics are the run's.
  virtual void end_step(telemetry::StepMetrics& metrics) = 0;
  /// On rank 0: adds what the report says of it, beside the highest bytes that were measured, by category.
  virtual void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const = 0;
};
using MakeAdviser = std::function<std::unique_ptr<ScheduleAdviser>(const AdvisedRun&)>;

}  // namespace hexad::train
