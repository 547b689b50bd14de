#include "framework/schedule/timeline.h"

#include <algorithm>
#include <functional>

#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

using Span = Timeline::Span;
using Intervals = std::vector<Interval>;  // sorted and disjoint, except where a function accepts any order

// Returns the union of `parts`, which may be in any order.
Intervals united(Intervals parts) {
  std::sort(parts.begin(), parts.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals whole;
  for (const Interval& part : parts)
    if (whole.empty() || part.begin > whole.back().end)
      whole.push_back(part);
    else
      whole.back().end = std::max(whole.back().end, part.end);
  return whole;
}

Intervals without(const Intervals& whole, const Intervals& holes) {
  Intervals rest;
  auto hole = holes.begin();
  for (Interval part : whole) {
    while (hole != holes.end() && hole->end <= part.begin) ++hole;
    for (auto h = hole; h != holes.end() && h->begin < part.end; ++h) {
      if (part.begin < h->begin) rest.push_back({part.begin, h->begin});
      part.begin = std::max(part.begin, h->end);
    }
    if (part.begin < part.end) rest.push_back(part);
  }
  return rest;
}

double length(const Intervals& parts) {
  double sum = 0;
  for (const Interval& part : parts) sum += part.length();
  return sum;
}

Intervals when(const Timeline& timeline, const std::function<bool(const TaskSpec&)>& chosen) {
  Intervals parts;
  for (const Span& span : timeline.spans)
    if (chosen(span.task)) parts.push_back({span.begin, span.end});
  return united(std::move(parts));
}

Intervals on_lane(const Timeline& timeline, Lane lane) {
  return when(timeline, [lane](const TaskSpec& task) { return task.lane == lane; });
}

double exposed_seconds(const Timeline& timeline, const std::function<bool(const TaskSpec&)>& chosen) {
  return length(without(when(timeline, chosen), on_lane(timeline, Lane::compute)));
}

std::string_view without_number(std::string_view name) { return name.substr(0, name.find('[')); }

}  // namespace

double Timeline::total() const {
  double last = 0;
  for (const Span& span : spans) last = std::max(last, span.end);
  return last;
}

double Timeline::busy(Lane lane) const { return length(on_lane(*this, lane)); }

double Timeline::exposed() const {
  return exposed_seconds(*this, [](const TaskSpec& task) { return is_communication(task.kind); });
}

double Timeline::exposed(TaskKind kind) const {
  return exposed_seconds(*this, [kind](const TaskSpec& task) { return task.kind == kind; });
}

double Timeline::exposed(Lane lane) const {
  return exposed_seconds(*this, [lane](const TaskSpec& task) { return task.lane == lane; });
}

std::vector<Interval> Timeline::exposed_parts(TaskId task) const {
  const Span& span = spans.at(task);
  return without({{span.begin, span.end}}, on_lane(*this, Lane::compute));
}

std::vector<Timeline::CollectiveTime> Timeline::collectives() const {
  std::vector<CollectiveTime> all;
  for (const Span& span : spans) {
    if (!is_communication(span.task.kind)) continue;
    const std::string_view name = without_number(span.task.name);
    auto it = std::find_if(all.begin(), all.end(), [&](const CollectiveTime& c) { return c.name == name; });
    if (it == all.end()) {
      const auto same = [name](const TaskSpec& t) {
        return is_communication(t.kind) && without_number(t.name) == name;
      };
      it = all.insert(it, {std::string(name), length(when(*this, same)), exposed_seconds(*this, same), 0});
    }
    it->wire_bytes += span.task.cost.wire_bytes;
  }
  return all;
}

Timeline measured(const TaskGraph& graph, std::span<const TaskTime> times, std::optional<double> origin) {
  const auto tasks = graph.tasks();
  base::require(times.size() == tasks.size(), "[schedule] the number of measured times is ", times.size(),
                "; expected ", tasks.size(), ", one for each task of the graph");
  Timeline timeline;
  if (tasks.empty()) return timeline;
  const auto earlier = [](const TaskTime& a, const TaskTime& b) { return a.begin < b.begin; };
  const double zero = origin.value_or(std::min_element(times.begin(), times.end(), earlier)->begin);
  for (size_t i = 0; i < tasks.size(); ++i)
    timeline.spans.push_back({tasks[i].spec, times[i].begin - zero, times[i].end - zero});
  return timeline;
}

double prediction_ratio(const Timeline& predicted, const Timeline& measured) {
  return predicted.total() == measured.total() ? 1 : predicted.total() / measured.total();
}

}  // namespace hexad::schedule
