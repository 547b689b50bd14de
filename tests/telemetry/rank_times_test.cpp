#include "framework/telemetry/rank_times.h"

#include <gtest/gtest.h>

#include <ctime>

namespace hexad::telemetry {
namespace {

TEST(RankTimes, SummariseAThousandRanksAndListEight) {
  std::vector<RankTime> ranks(1000, {.step_seconds = 1, .waited_seconds = 0.75});
  ranks[7].waited_seconds = 0.25;
  const RankTimes times = rank_times(ranks);
  EXPECT_EQ(times.own_seconds, (Spread{0.25, 0.25, 0.75}));
  EXPECT_EQ(times.waited_seconds, (Spread{0.25, 0.75, 0.75}));
  EXPECT_EQ(times.step_seconds, (Spread{1, 1, 1}));
  EXPECT_EQ(times.slowest.size(), 8u);
  EXPECT_EQ(times.slowest.front(), (RankTimes::Rank{7, 0.75, 0.25}));
}

// Adds `windows` windows of steps in which rank i works for own[i] seconds. Returns the ranks that are named as slow in
// each window.
std::vector<std::vector<int>> named(SlowRanks& slow, const std::vector<double>& own, int windows) {
  std::vector<RankTime> ranks;
  for (double seconds : own) ranks.push_back({.step_seconds = 1, .waited_seconds = 1 - seconds});
  std::vector<std::vector<int>> out;
  for (int w = 0; w < windows; ++w) {
    auto& list = out.emplace_back();
    for (int step = 0; step < SlowRanks::window; ++step)
      for (const auto& s : slow.add(ranks)) list.push_back(s.rank);
  }
  return out;
}

TEST(SlowRanks, AreNamedSlowestFirstAndAtGrowingIntervals) {
  SlowRanks slow({0, 0, 0, 0, 0});
  const std::vector<double> own{0.1, 0.125, 0.1, 0.15, 0.1};
  using Lists = std::vector<std::vector<int>>;
  EXPECT_EQ(named(slow, own, 6), (Lists{{3, 1}, {}, {3, 1}, {}, {}, {3, 1}}));
  EXPECT_EQ(named(slow, std::vector(5, 0.1), 1), Lists{{}});
  EXPECT_EQ(named(slow, own, 1), (Lists{{3, 1}})) << "ranks 1 and 3 were not slow in between";
}

TEST(SlowRanks, OneOfTwoCanBeSlow) {
  SlowRanks slow({0, 0});
  EXPECT_EQ(named(slow, {0.1, 0.121}, 1), std::vector<std::vector<int>>{{1}});
  SlowRanks equal({0, 0});
  EXPECT_EQ(named(equal, {0.1, 0.119}, 1), std::vector<std::vector<int>>{{}});
}

TEST(SlowRanks, AreComparedWithRanksOfEqualWork) {
  SlowRanks slow({0, 0, 1, 1});
  EXPECT_EQ(named(slow, {0.1, 0.1, 0.3, 0.3}, 1), std::vector<std::vector<int>>{{}});
}

// Returns the processor time of this process so far, in seconds.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A search whose time is quadratic in the number of ranks would take more than half a minute.
TEST(SlowRanks, AreFoundAmongManyRanksInLinearTime) {
  constexpr int ranks = 1 << 18, stages = 4;
  std::vector<int> stage_of_rank;
  for (int r = 0; r < ranks; ++r) stage_of_rank.push_back(r % stages);
  SlowRanks slow(stage_of_rank);
  std::vector<double> own(ranks, 0.1);
  own[ranks - 1] = 0.2, own[5] = 0.15;
  const double before = processor_seconds();
  EXPECT_EQ(named(slow, own, 1), (std::vector<std::vector<int>>{{ranks - 1, 5}}));
  EXPECT_LT(processor_seconds() - before, 10);
}

TEST(SlowRanks, AreNotNamedForOneNoisyStepOrOneMillisecond) {
  SlowRanks slow({0, 0});
  std::vector<RankTime> usual(2, {.step_seconds = 1, .waited_seconds = 0.9}), noisy = usual;
  noisy[1].waited_seconds = 0;
  for (int step = 0; step < SlowRanks::window; ++step) EXPECT_TRUE(slow.add(step == 5 ? noisy : usual).empty());
  EXPECT_EQ(named(slow, {0.001, 0.002}, 1), std::vector<std::vector<int>>{{}});
}

}  // namespace
}  // namespace hexad::telemetry
