#include "tools/plan/step_trace.h"

#include <algorithm>
#include <map>
#include <string>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using device::Issue;

// Subtracted from the duration of events, so that an event that begins where another one ends does not overlap it.
constexpr double rounding_us = 1e-6;

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
                              .duration_us = std::max(0.0, 1e6 * at.end - 1e6 * at.begin - rounding_us)};
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
    std::map<std::string, schedule::Interval> last;  // last event of each row
    for (size_t i = 0; i < times.size(); ++i) {
      if (times[i].length() <= 0) continue;
      const Issue& issue = record.issues[i];
      schedule::Interval& before = last[lane_of(record, issue)];
      const bool joined = !issue.communicates() && before.begin == times[i].begin && before.end == times[i].end;
      if (!joined) trace.events.push_back(event_of(record, issue, times[i]));
      before = times[i];
    }
  }
  telemetry::separate_overlaps(trace.events, " (beside)");
  return trace;
}

}  // namespace hexad::plan
