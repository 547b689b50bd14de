// Timelines of task graphs as rows of a trace: predicted beside measured.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/timeline.h"
#include "framework/telemetry/trace.h"

namespace hexad::telemetry {

/// One run of a graph on one rank. Either timeline may be null.
struct TimelinePair {
  const schedule::Timeline* measured = nullptr;
  const schedule::Timeline* predicted = nullptr;
};

/// The row that shows a task, by what its bytes pass: "inter" between nodes, "intra" between ranks of a node. Where a
/// lane's groups are not as its name says, the row names the lane's work, too: "intra (all-to-all)", "inter (sharing)".
std::string row_name(const schedule::TaskSpec& task);

/// Events for write_trace(): a measured task is in its row, "compute", and right below it comes what was predicted,
/// "compute (predicted)". `start_us`: where zero of both timelines lies on the trace's clock. Selected, a task shows
/// its kind and what it moves and computes.
std::vector<TraceEvent> trace_events(const TimelinePair& timelines, int rank, double start_us = 0);

}  // namespace hexad::telemetry
