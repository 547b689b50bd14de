// Interface of the adviser, which chooses the schedule of the MoE layers during training.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <spdlog/logger.h>

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/report.h"
#include "parallel/comm/world.h"
#include "tools/train/model/progress.h"
#include "tools/train/model/train_step.h"
#include "tools/train/report/run_trace.h"

namespace hexad::train {

/// Arguments of an adviser: a run whose weights are loaded and whose first step has not begun. All members outlive the
/// adviser.
struct AdvisedRun {
  const Recipe& recipe;
  ModelInstance& instance;
  const comm::World& world;
  Progress& progress;  // the adviser stores its choice here, for checkpoints
  RunTrace& trace;
  spdlog::logger& log;  // log of this rank
};

/// Chooses values for `auto` settings of schedule.moe, records the step that schedule.trace selects, and reports
/// predictions. tools/plan implements this interface. A run without an adviser uses the recipe's schedule unchanged.
/// begin_step() and end_step() are collective.
class ScheduleAdviser {
 public:
  virtual ~ScheduleAdviser() = default;
  /// Called before the work of `step`.
  virtual void begin_step(int64_t step) = 0;
  /// Called after a step's work with its result. May add to `metrics`, which are written to the run's metrics on rank
  /// 0.
  virtual void end_step(const StepResult& result, telemetry::StepMetrics& metrics) = 0;
  /// Adds the adviser's part to the report. Called on rank 0. `measured` has the measured peak memory in bytes, by
  /// category.
  virtual void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const = 0;
};
using MakeAdviser = std::function<std::unique_ptr<ScheduleAdviser>(const AdvisedRun&)>;

}  // namespace hexad::train
