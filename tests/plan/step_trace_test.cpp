// Trace and timelines of a handwritten step, whose times can be checked by hand.
#include "tools/plan/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/plan/step_timeline.h"

namespace hexad::tests {

using namespace plan;

namespace {

using device::CommunicationWork;
using device::Issue;
using device::Lane;
using device::MemoryWork;
using schedule::TaskKind;
using schedule::Timeline;
using telemetry::TraceEvent;

const std::string micro_batch = "forward, micro-batch 0", moe = "layers.0.moe forward";
const std::vector<int> two_domains{0, 1}, one_domain{0, 0};

Issue kernel(int64_t seconds, int32_t span, std::vector<int32_t> after = {}) {
  return {"pointwise", "add", Lane::compute, MemoryWork{seconds}, span, std::move(after)};
}

// Returns a step of rank 0: kernels of 2 s and 1 s, then an all-to-all of 4 s, then kernels of 2 s and 1 s.
StepForecast forecast() {
  StepRecord record{.rank = 0,
                    .issues = {kernel(2, 0), kernel(1, 1),
                               Issue{"comm", "all_to_all", Lane::compute, CommunicationWork{0, 4, 4}, 1, {1}},
                               kernel(2, 1, {2}), kernel(1, 0)},
                    .groups = {{"ep", static_cast<int>(comm::TrafficClass::ep), {0, 1}, 0}},
                    .spans = {{micro_batch, -1}, {moe, 0}}};
  StepForecast forecast;
  forecast.records = {std::move(record)};
  forecast.simulated = simulate_step(forecast.records, {0, 1},
                                     [](const StepRecord&, const Issue& issue) {
                                       if (const auto* work = std::get_if<CommunicationWork>(&issue.work))
                                         return static_cast<double>(work->sent);
                                       return static_cast<double>(std::get<MemoryWork>(issue.work).bytes);
                                     },
                                     {});
  forecast.seconds = forecast.simulated.seconds;
  return forecast;
}

const TraceEvent& event(const telemetry::TraceRecords& trace, const std::string& lane, const std::string& name) {
  const auto at = std::ranges::find_if(trace.events, [&](const auto& e) { return e.lane == lane && e.name == name; });
  if (at == trace.events.end()) throw std::runtime_error("there is no event " + name + " in row " + lane);
  return *at;
}

void expect_at(const TraceEvent& e, double begin, double end) {
  EXPECT_NEAR(e.start_us, 1e6 * begin, 1) << e.name;
  EXPECT_NEAR(e.start_us + e.duration_us, 1e6 * end, 1) << e.name;
}

struct Part {
  std::string name;
  double begin, end;
  bool operator==(const Part&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Part& p) { return out << p.name << " " << p.begin << ".." << p.end; }

std::vector<Part> parts_of(const Timeline& timeline, Lane lane) {
  std::vector<Part> parts;
  for (const Timeline::Span& s : timeline.spans)
    if (s.task.lane == lane) parts.push_back({s.task.name, s.begin, s.end});
  return parts;
}

// Returns the events of a measured step: the step of rank 0, and one event of rank 1.
telemetry::TraceRecords measured() {
  const auto at = [](std::string lane, std::string name, double begin, double end, int rank = 0) {
    return TraceEvent{.name = std::move(name),
                      .lane = std::move(lane),
                      .rank = rank,
                      .start_us = 1e6 * begin,
                      .duration_us = 1e6 * (end - begin),
                      .args = {{"wire_bytes", int64_t{4}}}};
  };
  return {{at("host", "step 4", 0, 16), at("host", moe, 1, 9), at("host", "wait: ep all_to_all of f32 [4]", 3, 6),
           at("host", "optimizer", 9, 10), at("ep (intra) at once", "all_to_all of f32 [4]", 2, 6),
           at("compute", "experts[0]", 1, 3), at("host", "data", 0, 1, 1)},
          {}};
}

TEST(StepTrace, HasThePartsOfTheModelAndTheRowsOfAMeasuredTrace) {
  const telemetry::TraceRecords trace = trace_of(forecast(), two_domains);
  expect_at(event(trace, "parts", micro_batch), 0, 10);
  expect_at(event(trace, "parts", moe), 2, 9);
  const TraceEvent& sent = event(trace, "ep (inter)", "all_to_all");
  expect_at(sent, 3, 7);
  EXPECT_EQ(std::get<int64_t>(sent.args.at("wire_bytes")), 4);
  EXPECT_EQ(std::get<std::string>(sent.args.at("group")), "ep of 2");
  expect_at(event(trace_of(forecast(), one_domain), "ep (intra)", "all_to_all"), 3, 7);
  EXPECT_EQ(std::ranges::count(trace.events, std::string("compute"), &TraceEvent::lane), 4);
  EXPECT_EQ(trace.events.size(), 7U) << "no spans overlap, so no row is split";
}

TEST(StepTimeline, PredictionHasKernelsByPartAndCommunicationByClass) {
  const Timeline timeline = predicted_timeline(forecast(), 0, two_domains);
  EXPECT_EQ(parts_of(timeline, Lane::compute),
            (std::vector<Part>{{micro_batch, 0, 2}, {moe, 2, 3}, {moe, 7, 9}, {micro_batch, 9, 10}}));
  EXPECT_EQ(parts_of(timeline, Lane::inter), (std::vector<Part>{{"ep all_to_all", 3, 7}}));
  EXPECT_DOUBLE_EQ(timeline.total(), 10);
  EXPECT_DOUBLE_EQ(timeline.exposed(TaskKind::all_to_all), 4);
}

TEST(StepTimeline, MeasurementHasTheInnermostPartsWithoutWaits) {
  const Timeline timeline = measured_timeline(measured(), 0);
  EXPECT_EQ(parts_of(timeline, Lane::compute), (std::vector<Part>{{moe, 1, 3}, {moe, 6, 9}, {"optimizer", 9, 10}}));
  EXPECT_EQ(parts_of(timeline, Lane::intra), (std::vector<Part>{{"ep all_to_all", 2, 6}}));
  EXPECT_DOUBLE_EQ(timeline.exposed(TaskKind::all_to_all), 3);
}

TEST(StepTimeline, TakesComputationFromTheDeviceIfThereIsOne) {
  telemetry::TraceRecords step = measured();
  step.events.push_back({.name = moe, .lane = "device", .start_us = 2e6, .duration_us = 5e6});
  EXPECT_EQ(parts_of(measured_timeline(step, 0), Lane::compute), (std::vector<Part>{{moe, 2, 7}}));
}

TEST(StepTimeline, JoinsInvisiblyShortNeighbours) {
  telemetry::TraceRecords step;
  constexpr int parts = 10'000;
  for (int i = 0; i < parts; ++i)
    step.events.push_back({.name = i % 2 ? "odd" : "even", .lane = "host", .start_us = 100.0 * i, .duration_us = 100});
  const Timeline timeline = measured_timeline(step, 0);
  EXPECT_LT(timeline.spans.size(), 1100U);
  EXPECT_EQ(timeline.spans.front().task.name, "several");
  EXPECT_NEAR(timeline.busy(Lane::compute), 1e-4 * parts, 1e-6);
}

}  // namespace

}  // namespace hexad::tests
