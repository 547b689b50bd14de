#include "tools/train/report/run_trace.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>

#include "framework/base/clock.h"
#include "framework/telemetry/trace_timeline.h"
#include "tools/train/report/trace_gathering.h"

namespace hexad::train {

using namespace base;
using namespace telemetry;

namespace {

using Recorded = device::SpanLog::Recorded;

constexpr std::string_view other_micro_batch = " (other micro-batch)", at_once = " at once";

std::vector<TraceEvent> events_of(const std::vector<Recorded>& spans, const std::string& lane, int rank, double zero) {
  std::vector<TraceEvent> events;
  for (const Recorded& span : spans)
    events.push_back({.name = span.name,
                      .lane = lane,
                      .rank = rank,
                      .start_us = 1e6 * (span.begin - zero),
                      .duration_us = 1e6 * (span.end - span.begin)});
  return events;
}

void append(std::vector<TraceEvent>& to, std::vector<TraceEvent> events, std::string_view mark) {
  separate_overlaps(events, mark);
  std::ranges::move(events, std::back_inserter(to));
}

// Returns the events of communication operations. Each traffic class has a lane for each kind of link, such as
// "dp (intra)". An operation that began before the trace is shown from the beginning of the trace.
std::vector<TraceEvent> operations_of(const std::vector<comm::TrafficRecord>& records, int rank, double zero) {
  std::vector<TraceEvent> events;
  for (const comm::TrafficRecord& r : records) {
    const double begin = std::max(r.begin, zero);
    events.push_back({.name = r.what,
                      .lane = cat(name_of(r.traffic), r.crosses_nodes ? " (inter)" : " (intra)"),
                      .rank = rank,
                      .start_us = 1e6 * (begin - zero),
                      .duration_us = 1e6 * (std::max(r.end, zero) - begin),
                      .args = {{"wire_bytes", r.bytes}}});
  }
  return events;
}

// Returns the waits of the rank's thread as events. In the lane "host", a wait appears inside the phase of the step.
std::vector<TraceEvent> waits_of(const std::vector<comm::TrafficRecord>& records, int rank, double zero) {
  std::vector<TraceEvent> events;
  for (const comm::TrafficRecord& r : records)
    if (r.waited_from > 0)
      events.push_back({.name = cat("wait: ", name_of(r.traffic), " ", r.what),
                        .lane = "host",
                        .rank = rank,
                        .start_us = 1e6 * (r.waited_from - zero),
                        .duration_us = 1e6 * (r.end - r.waited_from)});
  return events;
}

}  // namespace

RunTrace::RunTrace(const Recipe& recipe, ModelInstance& instance, const comm::ProcessGroup& world,
                   std::function<void(const std::string&)> info, std::function<void(const std::string&)> warn)
    : recipe_(recipe),
      instance_(instance),
      world_(world),
      info_(std::move(info)),
      warn_(std::move(warn)),
      steps_(parse_steps(recipe.profile.steps)) {}

bool RunTrace::wanted(int64_t step) const {
  return (steps_ && steps_->contains(step)) || step == recipe_.schedule.trace;
}

void RunTrace::begin_step(int64_t step) {
  close_step();
  const device::SpanLog& spans = instance_.context.spans();
  if (!wanted(step)) return end();
  if (!spans.recording()) start();
  // The adviser records the passes of the step schedule.trace, because these passes have their own rows next to
  // predicted passes.
  if (step != recipe_.schedule.trace) passes_.emplace(instance_);
  step_.emplace(instance_.context.spans(), "step", std::to_string(step));
}

void RunTrace::close_step() {
  step_.reset();
  if (!passes_) return;
  std::vector<TraceEvent> events;
  for (const PassRecorder::Recording& pass : passes_->passes()) {
    const schedule::Timeline measured = schedule::measured(pass.graph, pass.times);
    for (TraceEvent& e : trace_events({&measured, nullptr}, world_.rank(), 1e6 * (pass.begin() - *zero_))) {
      e.args["pass"] = pass.name.text();
      events.push_back(std::move(e));
    }
  }
  append(own_records_.events, std::move(events), other_micro_batch);
  passes_.reset();
}

void RunTrace::start() {
  if (!zero_) {
    const double ahead = clock_offset(world_, instance_.context);
    const double first = world_.rank() == 0 ? now() : -std::numeric_limits<double>::infinity();
    zero_ = world_.all_reduce_value(first, comm::Reduce::max, instance_.context) + ahead;
  }
  instance_.context.spans().start();
  world_.meter()->log().start();
}

void RunTrace::end() {
  device::SpanLog& log = instance_.context.spans();
  if (!log.recording()) return;
  close_step();
  const device::SpanLog::Records spans = log.stop();
  const int rank = world_.rank();
  TraceRecords mine;
  const std::vector<comm::TrafficRecord> operations = world_.meter()->log().stop();
  std::vector<TraceEvent> host = events_of(spans.host, "host", rank, *zero_);
  std::ranges::move(waits_of(operations, rank, *zero_), std::back_inserter(host));
  append(mine.events, std::move(host), other_micro_batch);
  append(mine.events, events_of(spans.device, "device", rank, *zero_), other_micro_batch);
  append(mine.events, operations_of(operations, rank, *zero_), at_once);
  std::ranges::move(own_records_.events, std::back_inserter(mine.events));
  own_records_ = {};
  for (const device::SpanLog::Sample& sample : spans.memory) {
    TraceCounter counter{.name = "memory (bytes)", .rank = rank, .time_us = 1e6 * (sample.time - *zero_)};
    for (size_t c = 0; c < sample.used.size(); ++c)
      counter.values[std::string(device::name_of(static_cast<device::Category>(c)))] = sample.used[c];
    mine.counters.push_back(std::move(counter));
  }
  gather_trace_records(mine, world_, instance_.context, all_);
  if (rank == 0) write();
}

void RunTrace::add(std::vector<TraceEvent> events, double begin) {
  for (TraceEvent& e : events) e.start_us += 1e6 * (begin - *zero_);
  std::ranges::move(events, std::back_inserter(all_.events));
}

void RunTrace::write() {
  const std::string path = (std::filesystem::path(recipe_.run.dir) / "trace.json.gz").string();
  try {
    write_trace(path, all_);
    info_(cat("timeline: ", path, ", for ui.perfetto.dev"));
  } catch (const Error& e) {
    warn_(e.what());
  }
}

}  // namespace hexad::train
