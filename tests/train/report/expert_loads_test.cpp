#include "tools/train/report/step_meter.h"

#include <gtest/gtest.h>

namespace hexad::train {
namespace {

using layers::ModelConfig;
using layers::RouterStatistics;
using Table = std::vector<std::vector<double>>;

ModelConfig model_of(int64_t layers, int64_t dense_layers, int64_t every) {
  ModelConfig model;
  model.layers = layers;
  model.moe.experts = 2;
  model.moe.dense_layers = dense_layers;
  model.moe.every = every;
  return model;
}

RouterStatistics router_of(int64_t first, int64_t second) {
  RouterStatistics router;
  router.counts = {first, second};
  router.assignments = first + second;
  return router;
}

TEST(ExpertLoads, HaveOneRowForEachBlock) {
  const std::vector<RouterStatistics> routers{router_of(1, 3), router_of(2, 2)};
  const std::vector<double> uneven{0.25, 0.75}, even{0.5, 0.5};
  EXPECT_EQ(expert_loads(model_of(2, 0, 1), routers), (Table{uneven, even}));
  EXPECT_EQ(expert_loads(model_of(4, 2, 1), routers), (Table{{}, {}, uneven, even})) << "the first layers are dense";
  EXPECT_EQ(expert_loads(model_of(4, 0, 2), routers), (Table{{}, uneven, {}, even})) << "every second layer is dense";
}

TEST(ExpertLoads, HaveRowsForPredictionBlocks) {
  ModelConfig model = model_of(2, 1, 1);
  model.prediction_blocks = 1;
  EXPECT_EQ(expert_loads(model, {router_of(1, 3), router_of(2, 2)}), (Table{{}, {0.25, 0.75}, {0.5, 0.5}}));
}

TEST(ExpertLoads, AreSharesOfThePairsThatTokensKeepIfExpertsChoose) {
  RouterStatistics router = router_of(1, 3);
  router.assignments = 8, router.dropped = 4;
  EXPECT_EQ(expert_loads(model_of(1, 0, 1), {router}), (Table{{0.25, 0.75}}));
}

TEST(ExpertLoads, AreZeroWithoutTokens) {
  EXPECT_EQ(expert_loads(model_of(2, 1, 1), {router_of(0, 0)}), (Table{{}, {0, 0}}));
}

TEST(ExpertLoads, AreEmptyWithoutExperts) {
  ModelConfig model = model_of(2, 0, 1);
  model.moe.experts = 0;
  EXPECT_TRUE(expert_loads(model, {}).empty());
}

}  // namespace
}  // namespace hexad::train
