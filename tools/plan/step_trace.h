// Trace of a simulated step, for ui.perfetto.dev or chrome://tracing.
#pragma once

#include "framework/telemetry/trace.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Returns the operations of the simulated step as events: one process for each simulated rank, one row for each lane
/// and class of traffic. Consecutive operations of a lane that were simulated together are one event, named by the part
/// of the model.
telemetry::TraceRecords trace_of(const StepForecast& forecast);

}  // namespace hexad::plan
