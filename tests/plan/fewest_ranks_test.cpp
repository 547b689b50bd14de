// The fewest ranks on which a model fits.
#include "tools/plan/fewest_ranks.h"

#include <gtest/gtest.h>

#include "tests/plan/planned_recipe.h"
#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/plan_search.h"

namespace hexad::tests {

using namespace plan;

namespace {

TEST(FewestRanks, TriesDivisorsOfANodeAndWholeNodes) {
  EXPECT_EQ(ranks_to_try(8, 30), (std::vector<int64_t>{1, 2, 4, 8, 16, 24}));
  EXPECT_EQ(ranks_to_try(6, 4), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(ranks_to_try(1, 3), (std::vector<int64_t>{1, 2, 3}));
}

TEST(FewestRanks, AreTheFirstThatFit) {
  const config::Document document = config::parse(yaml, "plan.yaml");
  // Each rank has a third of the memory that the smallest layout of one rank needs.
  Cluster small = two_nodes();
  const auto search = [&](int64_t world, Objective objective) {
    return search_plan(document, recipe_of(yaml), {}, small, {.world = world, .objective = objective, .wanted = 1});
  };
  const double alone = search(1, Objective::memory).best.front().memory.total;
  small.machine->memory = config::ByteSize(static_cast<int64_t>(alone / 3));
  const FewestRanks fewest =
      fewest_ranks(document, recipe_of(yaml), {}, small, {.world = ranks, .objective = Objective::ranks, .wanted = 1});
  ASSERT_FALSE(fewest.plan.best.empty());
  EXPECT_GT(fewest.ranks, 2);
  EXPECT_EQ(fewest.plan.best.front().step.seconds, search(fewest.ranks, Objective::time).best.front().step.seconds);
  ASSERT_FALSE(fewest.refused.empty());
  for (const FewestRanks::Refused& fewer : fewest.refused) {
    EXPECT_LT(fewer.ranks, fewest.ranks);
    EXPECT_TRUE(search(fewer.ranks, Objective::memory).best.empty()) << fewer.ranks;
  }
}

TEST(FewestRanks, HaveNoLayoutIfAllAreTooFew) {
  Cluster small = two_nodes();
  small.machine->memory = config::ByteSize(1 << 20);
  const FewestRanks fewest = fewest_ranks(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, small,
                                          {.world = 4, .objective = Objective::ranks});
  EXPECT_TRUE(fewest.plan.best.empty());
  EXPECT_EQ(fewest.ranks, 4);
  EXPECT_EQ(fewest.refused.size(), 3U);
}

TEST(FewestRanks, AreTheLastWithALegalLayoutIfNoneFits) {
  Cluster small = two_nodes();
  small.machine->nodes = 3;  // 64 sequences cannot be divided among 24 ranks
  small.machine->memory = config::ByteSize(1 << 20);
  const FewestRanks fewest = fewest_ranks(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, small,
                                          {.world = 24, .objective = Objective::ranks});
  EXPECT_EQ(fewest.ranks, 16);
  EXPECT_GT(fewest.plan.legal, 0);
  ASSERT_FALSE(fewest.refused.empty());
  EXPECT_EQ(fewest.refused.back().ranks, 24);
  EXPECT_EQ(fewest.refused.back().legal, 0);
}

}  // namespace
}  // namespace hexad::tests
