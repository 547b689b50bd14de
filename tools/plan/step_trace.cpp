#include "tools/plan/step_trace.h"

#include <algorithm>
#include <optional>
#include <string>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using device::Issue;
using schedule::Interval;

// Time that is subtracted from the duration of every event, so that rounding does not make consecutive events overlap.
constexpr double rounding_us = 1e-6;

telemetry::TraceEvent event_at(const Interval& at, int rank, double shorter_us) {
  return {.name = "",
          .rank = rank,
          .start_us = 1e6 * at.begin,
          .duration_us = std::max(0.0, 1e6 * at.end - 1e6 * at.begin - shorter_us)};
}

std::string lane_of(const StepRecord& record, const Issue& issue, const std::vector<int>& domain_of_rank) {
  const auto* work = std::get_if<CommunicationWork>(&issue.work);
  if (!work) return std::string(name_of(issue.lane));
  return base::cat(name_of(static_cast<comm::TrafficClass>(record.groups[work->group].traffic)),
                   leaves_domain(record, *work, domain_of_rank) ? " (inter)" : " (intra)");
}

telemetry::TraceEvent event_of(const StepRecord& record, const Issue& issue, const Interval& at,
                               const std::vector<int>& domain_of_rank) {
  telemetry::TraceEvent event = event_at(at, record.rank, rounding_us);
  event.lane = lane_of(record, issue, domain_of_rank);
  event.name = base::cat(issue.family, ".", issue.name);
  event.args["where"] = record.where(issue);
  if (const auto* work = std::get_if<CommunicationWork>(&issue.work)) {
    event.name = issue.name;
    event.args["wire_bytes"] = work->sent;
    event.args["group"] = base::cat(record.groups[work->group].name, " of ", record.groups[work->group].ranks.size());
  }
  return event;
}

// Adds an event for each part of the model that runs kernels.
void add_parts(const StepRecord& record, const std::vector<Interval>& times,
               std::vector<telemetry::TraceEvent>& events) {
  std::vector<std::optional<Interval>> parts(record.spans.size());
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].length() <= 0 || record.issues[i].communicates()) continue;
    for (int32_t s = record.issues[i].span; s >= 0; s = record.spans[s].around) {
      if (!parts[s]) parts[s] = times[i];
      parts[s]->begin = std::min(parts[s]->begin, times[i].begin);
      parts[s]->end = std::max(parts[s]->end, times[i].end);
    }
  }
  for (size_t s = 0; s < parts.size(); ++s) {
    if (!parts[s]) continue;
    int depth = 1;  // an inner part must be slightly shorter than the part around it
    for (int32_t around = record.spans[s].around; around >= 0; around = record.spans[around].around) ++depth;
    telemetry::TraceEvent event = event_at(*parts[s], record.rank, depth * rounding_us);
    event.name = record.spans[s].name;
    event.lane = "parts";
    events.push_back(std::move(event));
  }
}

}  // namespace

bool leaves_domain(const StepRecord& record, const CommunicationWork& work, const std::vector<int>& domain_of_rank) {
  const std::vector<int>& ranks = record.groups[work.group].ranks;
  const int domain = domain_of_rank[record.rank];
  if (work.peer >= 0) return domain_of_rank[ranks[work.peer]] != domain;
  return std::ranges::any_of(ranks, [&](int rank) { return domain_of_rank[rank] != domain; });
}

telemetry::TraceRecords trace_of(const StepForecast& forecast, const std::vector<int>& domain_of_rank) {
  telemetry::TraceRecords trace;
  for (size_t r = 0; r < forecast.records.size(); ++r) {
    const StepRecord& record = forecast.records[r];
    const auto& times = forecast.simulated.ranks[r].times;
    add_parts(record, times, trace.events);
    for (size_t i = 0; i < times.size(); ++i)
      if (times[i].length() > 0) trace.events.push_back(event_of(record, record.issues[i], times[i], domain_of_rank));
  }
  telemetry::separate_overlaps(trace.events, " (beside)");
  return trace;
}

}  // namespace hexad::plan
