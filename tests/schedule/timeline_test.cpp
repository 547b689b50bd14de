#include "framework/schedule/timeline.h"

#include <gtest/gtest.h>

#include "tests/schedule/sample_graphs.h"

namespace hexad::schedule {
namespace {

Timeline::Span span(Lane lane, const char* name, TaskKind kind, double begin, double end, int64_t bytes = 0) {
  return {{lane, name, {.wire_bytes = bytes}, kind}, begin, end};
}

// Tasks of each lane by time in seconds:
//          0  1  2  3  4  5  6  7  8  9  10
// inter    D0 D0 D0    D1 D1 D1 D1
// intra       G  G  G                 G1
// copy                       M  M  M
// compute     E0    E1 E1 E1
const Timeline sample{{
    span(Lane::inter, "D[0]", TaskKind::all_to_all, 0, 3, 10),
    span(Lane::compute, "E[0]", TaskKind::compute, 1, 2),
    span(Lane::intra, "G", TaskKind::all_gather, 1, 4),
    span(Lane::inter, "D[1]", TaskKind::all_to_all, 4, 8, 20),
    span(Lane::compute, "E[1]", TaskKind::compute, 3, 6),
    span(Lane::copy, "M", TaskKind::copy, 6, 9),
    span(Lane::intra, "G[1]", TaskKind::all_gather, 9, 10),
}};

TEST(Timeline, TotalIsTheLastEnd) {
  EXPECT_EQ(sample.total(), 10);
  EXPECT_EQ(Timeline{}.total(), 0);
}

TEST(Timeline, BusyCountsTimeOnce) {
  EXPECT_EQ(sample.busy(Lane::inter), 7);
  EXPECT_EQ(sample.busy(Lane::compute), 4);
  EXPECT_EQ(sample.busy(Lane::copy), 3);
  const Timeline overlapping{
      {span(Lane::inter, "a", TaskKind::send, 0, 3), span(Lane::inter, "b", TaskKind::send, 1, 2),
       span(Lane::inter, "c", TaskKind::send, 2, 5), span(Lane::inter, "d", TaskKind::send, 7, 8)}};
  EXPECT_EQ(overlapping.busy(Lane::inter), 6);
  EXPECT_EQ(Timeline{}.busy(Lane::inter), 0);
}

TEST(Timeline, ExposedTimeIsTimeWithoutComputation) {
  EXPECT_EQ(sample.exposed(Lane::inter), 4);  // [0, 1], [2, 3], [6, 8]
  EXPECT_EQ(sample.exposed(Lane::intra), 2);  // [2, 3], [9, 10]
  EXPECT_EQ(sample.exposed(Lane::copy), 3);   // [6, 9]
  EXPECT_EQ(sample.exposed(Lane::compute), 0);
  EXPECT_EQ(sample.exposed(TaskKind::all_to_all), 4);
  EXPECT_EQ(sample.exposed(TaskKind::all_gather), 2);
  EXPECT_EQ(sample.exposed(TaskKind::copy), 3);
  EXPECT_EQ(sample.exposed(TaskKind::send), 0);
  EXPECT_EQ(sample.exposed(), 5) << "[2, 3] counts once, and copies are not communication";
}

TEST(Timeline, ExposedPartsOfATaskAreInOrder) {
  const auto parts = sample.exposed_parts(0);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].begin, 0);
  EXPECT_EQ(parts[0].end, 1);
  EXPECT_EQ(parts[1].begin, 2);
  EXPECT_EQ(parts[1].end, 3);
  EXPECT_TRUE(sample.exposed_parts(4).empty());
}

TEST(Timeline, CollectivesJoinChunks) {
  const auto all = sample.collectives();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "D");
  EXPECT_EQ(all[0].seconds, 7);
  EXPECT_EQ(all[0].exposed, 4);
  EXPECT_EQ(all[0].wire_bytes, 30);
  EXPECT_EQ(all[1].name, "G") << "G and G[1] are one collective";
  EXPECT_EQ(all[1].seconds, 4);
  EXPECT_EQ(all[1].exposed, 2);
}

TEST(Timeline, DigitsWithoutBracketsAreNotChunkNumbers) {
  const Timeline t{{span(Lane::inter, "7", TaskKind::send, 0, 1), span(Lane::inter, "8", TaskKind::send, 1, 2)}};
  ASSERT_EQ(t.collectives().size(), 2u);
  EXPECT_EQ(t.collectives()[1].name, "8");
}

TEST(MeasuredTimeline, BeginsAtItsFirstTaskOrAtTheOrigin) {
  TaskGraph g;
  sends(g, Lane::inter, "D", 7);
  computes(g, "E", 1);
  const TaskTime times[] = {{105, 108}, {103, 104}};
  const Timeline own = measured(g, times);
  EXPECT_EQ(own.spans[0].begin, 2);
  EXPECT_EQ(own.spans[0].end, 5);
  EXPECT_EQ(own.spans[1].begin, 0);
  EXPECT_EQ(own.spans[0].task.name, "D");
  EXPECT_EQ(own.spans[0].task.kind, TaskKind::all_to_all);
  EXPECT_EQ(own.spans[0].task.cost.wire_bytes, 7);
  EXPECT_EQ(measured(g, times, 100).spans[1].begin, 3);
  EXPECT_TRUE(measured({}, {}).spans.empty());
  EXPECT_THROW(measured(g, {}), std::logic_error);
}

TEST(PredictionRatio, IsPredictedOverMeasured) {
  const Timeline two{{span(Lane::compute, "E", TaskKind::compute, 0, 2)}};
  const Timeline four{{span(Lane::compute, "E", TaskKind::compute, 0, 4)}};
  EXPECT_EQ(prediction_ratio(four, two), 2);
  EXPECT_EQ(prediction_ratio(two, four), 0.5);
  EXPECT_EQ(prediction_ratio({}, {}), 1);
}

}  // namespace
}  // namespace hexad::schedule
