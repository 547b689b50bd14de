// Choice of the schedule of the MoE layers while a run trains.
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

/// A run after its checkpoint was loaded and before its first step. All members outlive the adviser.
struct AdvisedRun {
  const Recipe& recipe;
  ModelInstance& instance;
  const comm::World& world;
  Progress& progress;  // the adviser stores its choice here, for checkpoints
  RunTrace& trace;
  spdlog::logger& log;  // log of this rank
};

/// Chooses the open settings of schedule.moe, records the step of schedule.trace, and reports its predictions.
/// tools/plan has an implementation. A run without an adviser uses the recipe's schedule unchanged. Collective.
class ScheduleAdviser {
 public:
  virtual ~ScheduleAdviser() = default;
  /// Called before a step's work.
  virtual void begin_step(int64_t step) = 0;
  /// Called after a step's work. `metrics` on rank 0 become the step's metrics of the run.
  virtual void end_step(telemetry::StepMetrics& metrics) = 0;
  /// Adds the adviser's part to the report, on rank 0. `measured` has the highest measured bytes, by category.
  virtual void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const = 0;
};
using MakeAdviser = std::function<std::unique_ptr<ScheduleAdviser>(const AdvisedRun&)>;

}  // namespace hexad::train
