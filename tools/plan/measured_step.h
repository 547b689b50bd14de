// Measured steps of a run, for comparison with a prediction.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "framework/telemetry/run_summary.h"
#include "framework/telemetry/trace.h"
#include "parallel/comm/traffic_class.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Steps since the run was last started or resumed. All these steps have the same recipe and layout.
struct MeasuredStep {
  std::filesystem::path run, recipe;  // the run directory, and the file with the recipe of these steps
  int64_t ranks = 0;
  telemetry::RunSummary summary;
  std::array<double, comm::traffic_class_count> sent{};  // median bytes of all ranks in a step, by traffic class

  std::optional<int64_t> traced_step = {};  // traced step with the median duration on rank 0
  telemetry::TraceRecords trace = {};       // trace of traced_step on all ranks; time 0 is the step's earliest start
  std::string trace_problem = {};           // reason why there is no trace
};

/// Reads a run directory. Throws Error(usage) if `run` is not a run directory. Throws Error(data) if the run has no
/// trained step, does not record its number of ranks, or has a damaged history.json or trace.
MeasuredStep measured_step(const std::filesystem::path& run);

/// Throws Error(usage) if a step of `recipe` on `ranks` ranks differs from the measured steps. Compares the number of
/// ranks, and the keys that affect the work of a step:
/// - most keys of the sections model, batch, parallel, schedule and offload
/// - the device, recompute and the precision
/// - some keys of optim and distributed
///
/// The error names each different key with both values.
void require_same_step(const MeasuredStep& measured, const train::Recipe& recipe, int64_t ranks);

}  // namespace hexad::plan
