#include "framework/telemetry/trace_timeline.h"

#include <gtest/gtest.h>

#include "tests/telemetry/sample_timelines.h"

namespace hexad::telemetry {
namespace {

std::vector<std::string> rows_of(const std::vector<TraceEvent>& events) {
  std::vector<std::string> rows;
  for (const TraceEvent& e : events)
    if (std::find(rows.begin(), rows.end(), e.lane) == rows.end()) rows.push_back(e.lane);
  return rows;
}

TEST(TraceTimeline, PutsAPredictedRowBelowEachMeasuredRow) {
  const SampleTimelines sample;
  EXPECT_EQ(rows_of(trace_events({&sample.measured, &sample.predicted}, 0)),
            (std::vector<std::string>{"inter", "inter (predicted)", "compute", "compute (predicted)"}));
  EXPECT_EQ(rows_of(trace_events({&sample.measured}, 0)), (std::vector<std::string>{"inter", "compute"}));
  EXPECT_EQ(rows_of(trace_events({nullptr, &sample.predicted}, 0)),
            (std::vector<std::string>{"inter (predicted)", "compute (predicted)"}));
  EXPECT_TRUE(trace_events({}, 0).empty());
}

TEST(TraceTimeline, NamesARowAfterItsLink) {
  using schedule::Lane;
  const auto row = [](Lane lane, bool crosses_nodes) {
    return row_name({lane, "S0", {.wire_bytes = 1, .group = "ep", .group_size = 2, .crosses_nodes = crosses_nodes}});
  };
  EXPECT_EQ(row(Lane::inter, true), "inter");
  EXPECT_EQ(row(Lane::inter, false), "intra (all-to-all)");
  EXPECT_EQ(row(Lane::intra, false), "intra");
  EXPECT_EQ(row(Lane::intra, true), "inter (sharing)");
  EXPECT_EQ(row(Lane::copy, false), "copy");
  EXPECT_EQ(row(Lane::compute, false), "compute");
}

TEST(TraceTimeline, GivesEachTaskItsRankTimesAndCost) {
  const SampleTimelines sample;
  const auto events = trace_events({&sample.measured, &sample.predicted}, 3, 1000);
  ASSERT_EQ(events.size(), 6u);
  for (const TraceEvent& e : events) EXPECT_EQ(e.rank, 3);
  const TraceEvent& d = events[0];
  EXPECT_EQ(d.name, "D0");
  EXPECT_EQ(d.start_us, 1000);
  EXPECT_EQ(d.duration_us, 2e6);
  EXPECT_EQ(std::get<std::string>(d.args.at("kind")), "all_to_all");
  EXPECT_EQ(std::get<int64_t>(d.args.at("wire_bytes")), 1 << 20);
  EXPECT_EQ(std::get<std::string>(d.args.at("group")), "ep of 4");
  EXPECT_EQ(d.args.count("flops"), 0u) << "amounts of zero are omitted";
  const TraceEvent& e = events[4];
  EXPECT_EQ(e.lane, "compute");
  EXPECT_EQ(e.start_us, 1000 + 2e6);
  EXPECT_EQ(std::get<double>(e.args.at("flops")), 1e9);
}

}  // namespace
}  // namespace hexad::telemetry
