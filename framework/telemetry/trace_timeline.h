// Timelines of task graphs as rows of a trace. Rows of predicted times are next to rows of measured times.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/timeline.h"
#include "framework/telemetry/trace.h"

namespace hexad::telemetry {

/// The measured and the predicted timeline of one run of a graph on one rank. Either may be null.
struct TimelinePair {
  const schedule::Timeline* measured = nullptr;
  const schedule::Timeline* predicted = nullptr;
};

/// Returns the name of a task's row: the name of the task's lane. Exceptions:
/// - "intra (all-to-all)" for a task of the lane "inter" whose data do not leave the node
/// - "inter (sharing)" for a task of the lane "intra" whose data cross nodes
std::string row_name(const schedule::TaskSpec& task);

/// Returns events for write_trace(). Measured tasks are in a row such as "compute", and predicted tasks in the row
/// "compute (predicted)" below it. Time 0 of both timelines is `start_us` on the trace's clock. A selected task shows
/// its kind, FLOPs, bytes and group.
std::vector<TraceEvent> trace_events(const TimelinePair& timelines, int rank, double start_us = 0);

}  // namespace hexad::telemetry
