#include "framework/telemetry/trace_timeline.h"

#include "framework/base/error.h"

namespace hexad::telemetry {
namespace {

using schedule::Lane;
using schedule::Timeline;

TraceEvent event_of(const Timeline::Span& span, std::string lane, int rank, double start_us) {
  TraceEvent e{.name = span.task.name,
               .lane = std::move(lane),
               .rank = rank,
               .start_us = start_us + 1e6 * span.begin,
               .duration_us = 1e6 * (span.end - span.begin)};
  const schedule::Cost& cost = span.task.cost;
  e.args["kind"] = std::string(name_of(span.task.kind));
  if (cost.flops > 0) e.args["flops"] = cost.flops;
  if (cost.wire_bytes > 0) e.args["wire_bytes"] = cost.wire_bytes;
  if (cost.received_bytes > 0) e.args["received_bytes"] = cost.received_bytes;
  if (cost.copy_bytes > 0) e.args["copy_bytes"] = cost.copy_bytes;
  if (!cost.group.empty()) e.args["group"] = base::cat(cost.group, " of ", cost.group_size);
  return e;
}

}  // namespace

std::string row_name(const schedule::TaskSpec& task) {
  const bool crosses = task.cost.crosses_nodes;
  if (task.lane == Lane::inter && !crosses) return "intra (all-to-all)";
  if (task.lane == Lane::intra && crosses) return "inter (sharing)";
  return std::string(name_of(task.lane));
}

std::vector<TraceEvent> trace_events(const TimelinePair& timelines, int rank, double start_us) {
  std::vector<TraceEvent> events;
  const auto add = [&](const Timeline* timeline, Lane lane, const std::string& suffix) {
    if (!timeline) return;
    for (const Timeline::Span& span : timeline->spans)
      if (span.task.lane == lane) events.push_back(event_of(span, row_name(span.task) + suffix, rank, start_us));
  };
  for (int l = 0; l < device::lane_count; ++l) {
    add(timelines.measured, static_cast<Lane>(l), "");
    add(timelines.predicted, static_cast<Lane>(l), " (predicted)");
  }
  return events;
}

}  // namespace hexad::telemetry
