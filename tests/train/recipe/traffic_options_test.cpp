// Traffic that a recipe's layout has in flight while products compute.
#include "tools/train/recipe/traffic_options.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using comm::TrafficBeside;
using comm::TrafficClass;
namespace {

constexpr const char* yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  layers: 4
  moe:
    experts: 8
batch:
  global: 32
  micro: 1
data:
  synthetic: true
)";

std::vector<TrafficBeside> beside(const std::vector<std::string>& overrides, int world) {
  return traffic_beside_products(recipe_of(yaml, overrides, world), world);
}

TEST(TrafficBesideProducts, IsEmptyForOneRank) {
  EXPECT_TRUE(beside({}, 1).empty());
  EXPECT_TRUE(beside({"schedule.pipeline.overlap=micro_batches"}, 1).empty());
}

TEST(TrafficBesideProducts, HasSumsOfTensorParallelismOrMessagesUnderSp) {
  EXPECT_EQ(beside({"parallel.tp=2"}, 2), std::vector{TrafficBeside{.traffic = TrafficClass::tp}});
  const auto messages = [](int operations) {
    return std::vector{TrafficBeside{.traffic = TrafficClass::tp, .messages = true, .operations = operations}};
  };
  EXPECT_EQ(beside({"parallel.tp=2", "parallel.sp=true"}, 2), messages(2));
  EXPECT_EQ(beside({"parallel.tp=4", "parallel.sp=true"}, 4), messages(6));
}

TEST(TrafficBesideProducts, HasOverlappedAllToAlls) {
  const std::vector all_to_all{TrafficBeside{.traffic = TrafficClass::ep}};
  const auto with_experts = [](std::vector<std::string> overrides) {
    overrides.emplace_back("parallel.ep=2");
    return beside(overrides, 2);
  };
  EXPECT_TRUE(with_experts({}).empty());
  EXPECT_EQ(with_experts({"schedule.pipeline.overlap=micro_batches"}), all_to_all);
  EXPECT_EQ(with_experts({"schedule.moe.chunk_by=auto"}), all_to_all);
  const std::string chunks = "schedule.moe.chunks=2", by_tokens = "schedule.moe.chunk_by=tokens",
                    share = "schedule.moe.compute_share=0.5";
  EXPECT_EQ(with_experts({by_tokens, chunks}), all_to_all);
  EXPECT_TRUE(with_experts({by_tokens, chunks, share}).empty());
  EXPECT_EQ(with_experts({by_tokens, chunks, share, "schedule.pipeline.overlap=micro_batches"}), all_to_all);
}

TEST(TrafficBesideProducts, HasTheMessagesOfPipelines) {
  const auto messages = [](int operations) {
    return std::vector{TrafficBeside{.traffic = TrafficClass::pp, .messages = true, .operations = operations}};
  };
  EXPECT_EQ(beside({"parallel.pp=2"}, 2), messages(2));
  EXPECT_EQ(beside({"parallel.pp=4"}, 4), messages(4));
}

TEST(TrafficBesideProducts, HasSumsOfGradientsIfTheyOverlapWithManyProducts) {
  const std::vector sums{TrafficBeside{.traffic = TrafficClass::dp}};
  EXPECT_EQ(beside({"batch.global=8"}, 2), sums);       // 4 micro-batches
  EXPECT_TRUE(beside({"batch.global=16"}, 2).empty());  // 8 micro-batches; sums overlap only with the last micro-batch
  EXPECT_EQ(beside({"batch.global=16", "parallel.zero=2"}, 2), sums);
  EXPECT_EQ(beside({"batch.global=4", "parallel.cp=2", "model.context=64"}, 2), sums);
}

TEST(TrafficBesideProducts, HasGathersOfWeightsUnderZero3) {
  EXPECT_EQ(beside({"parallel.zero=3"}, 2), (std::vector{TrafficBeside{.traffic = TrafficClass::dp, .operations = 2}}));
}

TEST(TrafficBesideProducts, ListsTheTrafficOfSeveralAxes) {
  EXPECT_EQ(beside({"parallel.pp=2", "parallel.zero=2"}, 4).size(), 2u);
}

}  // namespace
}  // namespace hexad::tests
