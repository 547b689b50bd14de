// Timelines of task graphs as rows of a trace, predicted next to measured.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/timeline.h"
#include "framework/telemetry/trace.h"

namespace hexad::telemetry {

/// Measured and predicted timeline of one run of a graph on one rank. Either may be null.
struct TimelinePair {
  const schedule::Timeline* measured = nullptr;
  const schedule::Timeline* predicted = nullptr;
};

/// Returns the row of a task, by the path of its bytes: "inter" between nodes, "intra" between ranks of a node. If a
/// lane's traffic does not match its name, the row also names the lane's work: "intra (all-to-all)", "inter (sharing)".
std::string row_name(const schedule::TaskSpec& task);

/// Returns events for write_trace(). Measured tasks are in a row such as "compute"; predicted tasks are in the row
/// below, "compute (predicted)". `start_us` is time zero of both timelines on the trace's clock. A selected task shows
/// its kind, its bytes and its computation.
std::vector<TraceEvent> trace_events(const TimelinePair& timelines, int rank, double start_us = 0);

}  // namespace hexad::telemetry
