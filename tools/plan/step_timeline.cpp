#include "tools/plan/step_timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "tools/plan/step_trace.h"

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using device::Lane;
using schedule::TaskKind;
using schedule::Timeline;
using telemetry::TraceEvent;
using Span = Timeline::Span;

TaskKind kind_named(std::string_view operation) {
  for (int k = 0; k < schedule::kind_count; ++k) {
    const auto kind = static_cast<TaskKind>(k);
    if (is_communication(kind) && operation.starts_with(name_of(kind))) return kind;
  }
  return TaskKind::send;
}

Span communication(std::string_view traffic, std::string_view operation, bool crosses_nodes, int64_t bytes,
                   const schedule::Interval& at) {
  Span span{.task = {.lane = crosses_nodes ? Lane::inter : Lane::intra, .name = base::cat(traffic, " ", operation)},
            .begin = at.begin,
            .end = at.end};
  span.task.kind = kind_named(operation);
  span.task.cost.wire_bytes = bytes;
  span.task.cost.crosses_nodes = crosses_nodes;
  return span;
}

Span computation(std::string name, double begin, double end) {
  return {.task = {.lane = Lane::compute, .name = std::move(name)}, .begin = begin, .end = end};
}

// Merges two neighbouring spans of one lane and kind if they have the same name, or if both are too short to be
// visible. The gap between merged spans is too short to be visible, too.
Timeline joined(std::vector<Span> spans) {
  constexpr double visible = 1e-3;  // share of the whole timeline's duration
  double seconds = 0;
  for (const Span& span : spans) seconds = std::max(seconds, span.end);
  const double least = visible * seconds;
  std::ranges::stable_sort(spans, {}, &Span::begin);
  Timeline timeline;
  std::array<std::optional<size_t>, device::lane_count> last{};  // index of the latest span of each lane
  for (Span& span : spans) {
    std::optional<size_t>& at = last[base::ordinal(span.task.lane)];
    if (at) {
      Span& before = timeline.spans[*at];
      const bool same = before.task.name == span.task.name;
      const bool both_short = before.end - before.begin < least && span.end - span.begin < least;
      if (before.task.kind == span.task.kind && span.begin - before.end < least && (same || both_short)) {
        if (!same) before.task.name = "several";
        before.end = std::max(before.end, span.end);
        before.task.cost.wire_bytes += span.task.cost.wire_bytes;
        continue;
      }
    }
    at = timeline.spans.size();
    timeline.spans.push_back(std::move(span));
  }
  return timeline;
}

// Adds spans for the times at which each event of a row is the innermost event. Ignores waits and the event of the
// whole step.
void add_innermost(std::vector<const TraceEvent*> row, std::vector<Span>& spans) {
  std::ranges::stable_sort(row, {}, [](const TraceEvent* e) { return std::pair(e->start_us, -e->duration_us); });
  std::vector<const TraceEvent*> open;
  double now = 0;
  const auto pass_until = [&](double time) {
    const std::string& name = open.back()->name;
    if (time > now && !name.starts_with("wait: ") && !name.starts_with("step "))
      spans.push_back(computation(name, now / 1e6, time / 1e6));
    now = std::max(now, time);
  };
  const auto close_until = [&](double time) {
    while (!open.empty() && open.back()->start_us + open.back()->duration_us <= time) {
      pass_until(open.back()->start_us + open.back()->duration_us);
      open.pop_back();
    }
  };
  for (const TraceEvent* e : row) {
    close_until(e->start_us);
    if (!open.empty()) pass_until(e->start_us);
    now = e->start_us;
    open.push_back(e);
  }
  close_until(std::numeric_limits<double>::infinity());
}

// Parses a row name such as "dp (inter) at once". Returns the class of traffic, and true if the traffic crosses nodes.
// Returns none for rows without traffic.
std::optional<std::pair<std::string_view, bool>> traffic_of(std::string_view lane) {
  for (const bool crosses : {false, true})
    if (const size_t at = lane.find(crosses ? " (inter)" : " (intra)"); at != lane.npos)
      return std::pair(lane.substr(0, at), crosses);
  return {};
}

}  // namespace

Timeline predicted_timeline(const StepForecast& forecast, size_t stage, const std::vector<int>& domain_of_rank) {
  const StepRecord& record = forecast.records[stage];
  const std::vector<schedule::Interval>& times = forecast.simulated.ranks[stage].times;
  std::vector<Span> spans;
  for (size_t i = 0; i < times.size(); ++i) {
    const device::Issue& issue = record.issues[i];
    if (times[i].length() <= 0) continue;
    if (const auto* work = std::get_if<CommunicationWork>(&issue.work))
      spans.push_back(communication(name_of(static_cast<comm::TrafficClass>(record.groups[work->group].traffic)),
                                    issue.name, leaves_domain(record, *work, domain_of_rank), work->sent, times[i]));
    else if (issue.lane != Lane::copy)
      spans.push_back(computation(issue.span >= 0 ? record.spans[issue.span].name : std::string(issue.family),
                                  times[i].begin, times[i].end));
  }
  return joined(std::move(spans));
}

Timeline measured_timeline(const telemetry::TraceRecords& step, int rank) {
  std::vector<Span> spans;
  std::map<std::string, std::vector<const TraceEvent*>> host, device;  // events of each row
  for (const TraceEvent& e : step.events) {
    if (e.rank != rank) continue;
    if (e.lane.starts_with("host")) host[e.lane].push_back(&e);
    if (e.lane.starts_with("device")) device[e.lane].push_back(&e);
    if (const auto traffic = traffic_of(e.lane)) {
      const auto bytes = e.args.find("wire_bytes");
      const auto* sent = bytes == e.args.end() ? nullptr : std::get_if<int64_t>(&bytes->second);
      spans.push_back(communication(traffic->first, e.name.substr(0, e.name.find(' ')), traffic->second,
                                    sent ? *sent : 0, {e.start_us / 1e6, (e.start_us + e.duration_us) / 1e6}));
    }
  }
  for (const auto& [lane, events] : device.empty() ? host : device) add_innermost(events, spans);
  return joined(std::move(spans));
}

}  // namespace hexad::plan
