// Predicted and measured timelines of a whole step on one rank, for telemetry::timeline_svg(). The lane compute shows
// the parts of the model that the rank computes. The lanes intra and inter show communication, named by class and
// operation. Very short neighbouring spans are merged, because a picture cannot show them.
#pragma once

#include <vector>

#include "framework/schedule/timeline.h"
#include "framework/telemetry/trace.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Returns the timeline of the simulated rank `forecast.records[stage]`. `domain_of_rank` is as in trace_of().
schedule::Timeline predicted_timeline(const StepForecast& forecast, size_t stage,
                                      const std::vector<int>& domain_of_rank);

/// Returns the timeline of rank `rank` in a recorded step. Times are relative to the start of the step. Computation
/// comes from the rows "device..." if the trace has any, otherwise from the rows "host..." without their waits. In the
/// rows "device...", waits of the device's queue count as computation.
schedule::Timeline measured_timeline(const telemetry::TraceRecords& step, int rank);

}  // namespace hexad::plan
