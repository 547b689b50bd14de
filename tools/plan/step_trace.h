// Trace of a simulated step, for ui.perfetto.dev or chrome://tracing.
#pragma once

#include <vector>

#include "framework/telemetry/trace.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Returns the operations of the simulated step as events: one process for each simulated rank. Row "parts" has the
/// parts of the model, with the names of a measured trace. A part lasts from the start of its first kernel or copy to
/// the end of its last kernel or copy. Other rows have the operations of each lane, and the traffic of each class and
/// kind of link, such as "dp (intra)"; "intra" stands for the fast link. `domain_of_rank` has the domain of the fast
/// link for each rank of the world (StepPrices::domain_of_rank()).
telemetry::TraceRecords trace_of(const StepForecast& forecast, const std::vector<int>& domain_of_rank);

/// True if a message leaves the rank's domain of the fast link. True for a collective if the group's ranks are in
/// several domains.
bool leaves_domain(const StepRecord& record, const device::CommunicationWork& work,
                   const std::vector<int>& domain_of_rank);

}  // namespace hexad::plan
