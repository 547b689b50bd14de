#include "tools/plan/step_trace.h"

#include <string>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using device::Issue;

std::string lane_of(const StepRecord& record, const Issue& issue) {
  if (const auto* work = std::get_if<CommunicationWork>(&issue.work))
    return std::string(name_of(static_cast<comm::TrafficClass>(record.groups[work->group].traffic)));
  return std::string(name_of(issue.lane));
}

telemetry::TraceEvent event_of(const StepRecord& record, const Issue& issue, const schedule::Interval& at) {
  telemetry::TraceEvent event{.name = base::cat(issue.family, ".", issue.name),
                              .lane = lane_of(record, issue),
                              .rank = record.rank,
                              .start_us = 1e6 * at.begin,
                              .duration_us = 1e6 * at.length()};
  event.args["where"] = record.where(issue);
  if (const auto* work = std::get_if<CommunicationWork>(&issue.work)) {
    event.name = base::cat(issue.name, " (", record.groups[work->group].name, ")");
    event.args["sent bytes"] = work->sent;
    event.args["ranks"] = static_cast<int64_t>(record.groups[work->group].ranks.size());
  }
  return event;
}

}  // namespace

telemetry::TraceRecords trace_of(const StepForecast& forecast) {
  telemetry::TraceRecords trace;
  for (size_t r = 0; r < forecast.records.size(); ++r) {
    const StepRecord& record = forecast.records[r];
    const auto& times = forecast.simulated.ranks[r].times;
    for (size_t i = 0; i < times.size(); ++i) {
      const bool joined = i > 0 && times[i].begin == times[i - 1].begin && times[i].end == times[i - 1].end &&
                          !record.issues[i].communicates() && !record.issues[i - 1].communicates();
      if (joined || times[i].length() == 0) continue;
      trace.events.push_back(event_of(record, record.issues[i], times[i]));
    }
  }
  telemetry::separate_overlaps(trace.events, "beside");
  return trace;
}

}  // namespace hexad::plan
