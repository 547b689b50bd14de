// Paths of context lengths, planned with a fake search whose layouts need a known number of bytes.
#include "tools/plan/expansion_path.h"

#include <gtest/gtest.h>

namespace hexad::plan {
namespace {

// Fake searches of a model with one layout. Each rank has 10 bytes of memory. The layout needs
// (100 + context / 1000) / ranks bytes on each rank.
class Searches {
 public:
  PlanAt plan_at() {
    return [this](const PlanQuestion& q) {
      asked.push_back(q);
      Plan plan;
      plan.legal = 1;
      plan.memory = 10;
      PlannedLayout layout;
      layout.memory.total = (100 + static_cast<double>(q.context) / 1000) / static_cast<double>(q.ranks);
      layout.step.seconds = static_cast<double>(q.context) / static_cast<double>(q.ranks);
      if (q.any_memory || layout.memory.total <= plan.memory) plan.best.push_back(layout);
      return plan;
    };
  }
  std::vector<PlanQuestion> asked;
};

std::vector<PathPoint> path_of(Searches& searches, const std::vector<int64_t>& lengths, int64_t ranks, int64_t most) {
  return expansion_path(searches.plan_at(), {.lengths = lengths, .ranks = ranks, .max_ranks = most});
}

TEST(ExpansionPath, DoublesRanksIfALengthDoesNotFit) {
  Searches searches;
  const std::vector<PathPoint> path = path_of(searches, {50'000, 100'000, 200'000, 400'000}, 16, 64);
  ASSERT_EQ(path.size(), 4U);
  const int64_t ranks[] = {16, 32, 32, 64};
  for (size_t i = 0; i < path.size(); ++i) {
    EXPECT_EQ(path[i].ranks, ranks[i]) << i;
    EXPECT_TRUE(path[i].layout) << i;
    EXPECT_FALSE(path[i].shortfall) << i;
  }
}

TEST(ExpansionPath, UsesAllRanksOfAClusterOf24Ranks) {
  Searches searches;
  EXPECT_EQ(path_of(searches, {100'000}, 16, 24).front().ranks, 24);
}

TEST(ExpansionPath, NamesTheShortfallOfLengthsThatFitNowhere) {
  Searches searches;
  const std::vector<PathPoint> path = path_of(searches, {50'000, 100'000, 200'000, 400'000}, 16, 16);
  ASSERT_EQ(path.size(), 4U);
  EXPECT_TRUE(path[0].layout);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(path[i].layout) << i;
    ASSERT_TRUE(path[i].shortfall && path[i].shortfall->least) << i;
    EXPECT_DOUBLE_EQ(path[i].shortfall->missing(), (100 + static_cast<double>(path[i].context) / 1000) / 16 - 10);
  }
  // After the first length that fits nowhere, each length is searched once.
  EXPECT_EQ(searches.asked.size(), 1U + 2 + 1 + 1);
}

TEST(ExpansionPath, UsesLayoutsOfTheUnlimitedSearch) {
  const PlanAt plan_at = [](const PlanQuestion& q) {
    Plan plan;
    plan.memory = 10;
    if (q.any_memory) plan.best.emplace_back().memory.total = 10;
    return plan;
  };
  const int64_t lengths[] = {50'000, 100'000};
  const std::vector<PathPoint> path = expansion_path(plan_at, {.lengths = lengths, .ranks = 16, .max_ranks = 16});
  ASSERT_EQ(path.size(), 2U);
  for (const PathPoint& p : path) {
    EXPECT_TRUE(p.layout) << p.context;
    EXPECT_FALSE(p.shortfall) << p.context;
  }
}

TEST(ExpansionPath, EndsIfTheFirstLengthFitsNowhere) {
  Searches searches;
  const std::vector<PathPoint> path = path_of(searches, {100'000, 200'000}, 16, 16);
  ASSERT_EQ(path.size(), 1U);
  EXPECT_FALSE(path[0].layout);
  EXPECT_TRUE(path[0].shortfall);
}

TEST(NearestFit, HasTheFewestTriedRanks) {
  Searches searches;
  const Shortfall missing = shortfall(searches.plan_at(), 400'000, 16, 10);  // 500 bytes in all, 31.25 on each rank
  EXPECT_DOUBLE_EQ(missing.missing(), 21.25);
  searches.asked.clear();
  const auto fit = with_more_ranks(searches.plan_at(), missing);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->ranks, 64);
  EXPECT_EQ(fit->context, 400'000);
  EXPECT_EQ(searches.asked.size(), 1U);  // 32 ranks could not hold the bytes
}

TEST(NearestFit, HasTheLongestShorterContext) {
  Searches searches;
  const auto fit = with_shorter_context(searches.plan_at(), shortfall(searches.plan_at(), 102'400, 16, 10));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->context, 51'200);
  EXPECT_EQ(fit->ranks, 16);
}

TEST(NearestFit, HasNoContextIfTheShortestDoesNotFit) {
  Searches searches;
  const Shortfall missing = shortfall(searches.plan_at(), 4096, 8, 10);
  searches.asked.clear();
  EXPECT_FALSE(with_shorter_context(searches.plan_at(), missing));
  ASSERT_EQ(searches.asked.size(), 1U);
  EXPECT_EQ(searches.asked.front().context, 1024);
}

TEST(NearestFit, IsEmptyWithoutALegalLayout) {
  const PlanAt none = [](const PlanQuestion&) { return Plan{}; };
  const Shortfall missing = shortfall(none, 4096, 8, 10);
  EXPECT_FALSE(missing.least);
  EXPECT_FALSE(with_more_ranks(none, missing));
  EXPECT_FALSE(with_shorter_context(none, missing));
}

}  // namespace
}  // namespace hexad::plan
