// Assignment of layers to stages.
#include "parallel/pp/stage_split.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::pp {
namespace {

using Split = std::vector<int64_t>;

ModelCosts equal(int64_t layers, double embedding = 0, double head = 0) {
  return {std::vector<double>(layers, 1.0), embedding, head};
}

TEST(BalancedSplit, IsEvenForEqualLayers) {
  EXPECT_EQ(balanced_split(equal(8), 4), (Split{2, 2, 2, 2}));
  EXPECT_EQ(balanced_split(equal(10), 4), (Split{3, 3, 2, 2}));
  EXPECT_EQ(balanced_split(equal(5), 1), (Split{5}));
  EXPECT_EQ(balanced_split(equal(5), 5), (Split{1, 1, 1, 1, 1}));
}

TEST(BalancedSplit, CountsEmbeddingAndHead) {
  EXPECT_EQ(balanced_split(equal(10, 1, 1), 4), (Split{2, 3, 3, 2}));
  EXPECT_EQ(balanced_split(equal(9, 0, 2), 3), (Split{4, 4, 1}));
  EXPECT_EQ(balanced_split(equal(8, 0, 100), 4), (Split{3, 2, 2, 1})) << "the head cannot be divided";
}

TEST(BalancedSplit, FollowsTheCostOfEachLayer) {
  EXPECT_EQ(balanced_split({{3, 1, 1, 1, 3, 3}}, 4), (Split{1, 3, 1, 1}));
  EXPECT_EQ(balanced_split({{1, 1, 1, 1, 4}}, 2), (Split{4, 1}));
}

// Compares the result with all splits of seven layers into four stages.
TEST(BalancedSplit, MinimisesTheLargestStageCost) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const base::Philox random(seed, base::Purpose::synthetic);
    ModelCosts costs{std::vector<double>(7), 2, 5};
    for (size_t l = 0; l < 7; ++l) costs.layers[l] = static_cast<double>(1 + random.below(l, 9));
    const auto dearest = [&](const Split& split) {
      double worst = 0;
      for (size_t s = 0, l = 0; s < split.size(); ++s) {
        double cost = s == 0 ? costs.embedding : s + 1 == split.size() ? costs.head : 0;
        for (int64_t i = 0; i < split[s]; ++i) cost += costs.layers[l++];
        worst = std::max(worst, cost);
      }
      return worst;
    };
    const double chosen = dearest(balanced_split(costs, 4));
    for (int64_t a = 1; a <= 4; ++a)
      for (int64_t b = 1; a + b <= 5; ++b)
        for (int64_t c = 1; a + b + c <= 6; ++c)
          EXPECT_LE(chosen, dearest({a, b, c, 7 - a - b - c})) << "seed " << seed;
  }
}

TEST(StageSplit, GivesEveryLayerToOneVirtualStage) {
  const StageSplit loop({2, 2, Placing::loop}, {3, 1, 2, 2}, equal(8)),
      vee({2, 2, Placing::vee}, {3, 1, 2, 2}, equal(8));
  EXPECT_EQ(loop.layers(0, 0), (StageSplit::Layers{0, 3}));
  EXPECT_EQ(loop.layers(1, 0), (StageSplit::Layers{3, 4}));
  EXPECT_EQ(loop.layers(0, 1), (StageSplit::Layers{4, 6}));
  EXPECT_EQ(loop.layers(1, 1), (StageSplit::Layers{6, 8}));
  EXPECT_EQ(vee.layers(1, 1), (StageSplit::Layers{4, 6}));
  EXPECT_EQ(vee.layers(0, 1), (StageSplit::Layers{6, 8}));
  EXPECT_EQ(loop.to_string(), "[3, 1, 2, 2]");
}

TEST(StageSplit, PutsTheEmbeddingFirstAndTheHeadLast) {
  const StageSplit loop({2, 2, Placing::loop}, {}, equal(4)), vee({2, 2, Placing::vee}, {}, equal(4));
  for (int rank = 0; rank < 2; ++rank)
    for (int local_stage = 0; local_stage < 2; ++local_stage) {
      EXPECT_EQ(loop.has_embedding(rank, local_stage), rank == 0 && local_stage == 0);
      EXPECT_EQ(vee.has_embedding(rank, local_stage), rank == 0 && local_stage == 0);
      EXPECT_EQ(loop.has_head(rank, local_stage), rank == 1 && local_stage == 1);
      EXPECT_EQ(vee.has_head(rank, local_stage), rank == 0 && local_stage == 1)
          << "the first rank has both ends of the model";
    }
}

std::string refusal(const StageMap& stages, const Split& split, int64_t layers) {
  try {
    StageSplit(stages, split, equal(layers));
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

TEST(StageSplit, RefusesFewerLayersThanStages) {
  EXPECT_EQ(refusal({4, 2, Placing::loop}, {}, 6),
            "parallel.pp (4) x 2 virtual stages per rank = 8, but model.layers is 6: every virtual stage needs a "
            "layer; nearest: 8 layers, or parallel.pp 3");
  EXPECT_EQ(refusal({2, 3, Placing::loop}, {}, 2),
            "parallel.pp (2) x 3 virtual stages per rank = 6, but model.layers is 2: every virtual stage needs a "
            "layer; nearest: 6 layers");
}

TEST(StageSplit, RefusesMismatchedLists) {
  EXPECT_EQ(refusal({4, 1, Placing::loop}, {2, 2, 4}, 8),
            "schedule.pipeline.split has 3 numbers, but parallel.pp (4) x 1 virtual stage per rank = 4; expected 4 "
            "numbers");
  EXPECT_EQ(refusal({3, 1, Placing::loop}, {2, 3, 4}, 8),
            "schedule.pipeline.split: 2 + 3 + 4 = 9, but model.layers is 8; nearest: 3 as the last number");
  EXPECT_EQ(refusal({2, 1, Placing::loop}, {9, 3}, 8),
            "schedule.pipeline.split: 9 + 3 = 12, but model.layers is 8; expected smaller numbers");
  EXPECT_EQ(refusal({2, 1, Placing::loop}, {8, 0}, 8), "schedule.pipeline.split[1] (0) must be at least 1");
}

}  // namespace
}  // namespace hexad::pp
