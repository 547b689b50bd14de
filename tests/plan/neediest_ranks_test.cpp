// Estimates of the largest memory from a part of the stages, compared with estimates from all stages.
#include "tools/plan/neediest_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/shared_by_runs.h"
#include "tools/plan/step_on_meta.h"
#include "tools/train/recipe/stages.h"

namespace hexad::tests {

using namespace plan;

namespace {

struct Case {
  std::string name;
  int ranks;
  size_t neediest;  // number of stages, out of eight, that are estimated on a CPU
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Recipe recipe_with(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=16", "train.precision=f32",
                               "batch.micro=1",   "batch.global=48", "parallel.pp=8"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

class NeediestRanks : public testing::TestWithParam<Case> {};

TEST_P(NeediestRanks, HaveTheMemoryOfTheNeediestOfAllStages) {
  const int ranks = GetParam().ranks;
  for (const device::DeviceKind device : {device::DeviceKind::cpu, device::DeviceKind::cuda}) {
    SCOPED_TRACE(base::cat("device ", static_cast<int>(device)));
    Recipe r = recipe_with(GetParam().overrides);
    r.device = device;
    const auto stages = estimate_stages(r, {}, ranks);
    const auto expected = *std::ranges::max_element(stages, {}, &plan::MemoryEstimate::total);
    const auto actual = estimate_memory(r, {}, ranks);
    EXPECT_EQ(expected.total, actual.total);
    EXPECT_EQ(expected.blocks, actual.blocks);
    EXPECT_EQ(expected.weights, actual.weights);
    EXPECT_EQ(expected.activations, actual.activations);
    EXPECT_EQ(expected.connections, actual.connections);
    EXPECT_EQ(expected.temporary, actual.temporary);
    EXPECT_EQ(expected.in_flight, actual.in_flight);
  }
}

TEST_P(NeediestRanks, AreInFewStages) {
  const Recipe r = train::with_stage_split(recipe_with(GetParam().overrides), {});
  const mesh::Layout layout(r.parallel.sizes(), GetParam().ranks);
  const auto shared = std::make_shared<SharedByRuns>();
  EXPECT_EQ(neediest_ranks(r, layout, RoutingLoad::even, *shared).size(), GetParam().neediest);
  estimate_memory(r, {}, GetParam().ranks, RoutingLoad::even, shared);
  EXPECT_EQ(shared->runs, static_cast<int64_t>(GetParam().neediest)) << "each of these stages must be run once";
}

const std::string equal = "schedule.pipeline.split=[2, 2, 2, 2, 2, 2, 2, 2]";

INSTANTIATE_TEST_SUITE_P(
    , NeediestRanks,
    testing::Values(
        Case{"OneFOneB", 8, 3, {equal}}, Case{"Bf16", 8, 3, {equal, "train.precision=bf16"}},
        Case{"Blocks", 8, 3, {equal, "recompute=block"}}, Case{"Zero1", 16, 3, {equal, "parallel.zero=1"}},
        Case{"Experts", 32, 3, {equal, "parallel.ep=4", "parallel.zero=1"}},
        Case{"Tensors", 16, 3, {equal, "parallel.tp=2", "parallel.sp=true"}},
        Case{"Tied", 8, 3, {equal, "model.tied_embedding=true"}},
        Case{"Prediction", 8, 3, {equal, "model.prediction_blocks=1"}},
        Case{"Windows", 8, 3, {equal, "model.window=3", "model.full_attention_every=2"}},
        Case{"FewMicroBatches", 8, 3, {equal, "batch.global=4"}}, Case{"Muon", 8, 3, {equal, "optim.name=muon"}},
        // The first two stages have only dense layers, the third has one, and the others have none.
        Case{"DenseLayers", 8, 5, {equal, "model.moe.dense_layers=5"}},
        Case{"Interleaved", 8, 3, {"schedule.pipeline.kind=interleaved"}},
        Case{"InterleavedBf16Zero1",
             16,
             3,
             {"schedule.pipeline.kind=interleaved", "train.precision=bf16", "parallel.zero=1", "batch.global=64"}},
        Case{"InterleavedOfFew", 8, 4, {"schedule.pipeline.kind=interleaved", "batch.global=4"}},
        Case{"ZeroBubble", 8, 4, {equal, "schedule.pipeline.kind=zb_h1"}},
        Case{"ZeroBubbleBlocks", 8, 4, {equal, "schedule.pipeline.kind=zb_h1", "recompute=block"}},
        Case{"ZeroBubbleBf16", 8, 4, {equal, "schedule.pipeline.kind=zb_h1", "train.precision=bf16"}},
        Case{"ZeroBubbleExperts", 32, 4, {equal, "schedule.pipeline.kind=zb_h1", "parallel.ep=4", "batch.global=64"}},
        Case{"UnequalSplit", 8, 5, {"schedule.pipeline.split=[1, 1, 3, 3, 2, 2, 2, 2]"}},
        // All stages of the following cases are estimated.
        Case{"Zero3", 16, 8, {equal, "parallel.zero=3"}}, Case{"Gpipe", 8, 8, {equal, "schedule.pipeline.kind=gpipe"}},
        Case{"ZeroBubbleOfFew", 8, 8, {equal, "schedule.pipeline.kind=zb_h1", "batch.global=15"}},
        Case{"Frozen", 8, 8, {equal, "optim.freeze=[layers.5.*]"}},
        Case{"MuonExcept", 8, 8, {equal, "optim.name=muon", "optim.muon_except=[layers.7.*]"}},
        Case{"Offload", 8, 8, {equal, "offload.activations=true"}}),
    [](const auto& c) { return c.param.name; });

TEST(NeediestRanksOfGpus, DependOnThePlacementOfStagesOnNodes) {
  const auto stages = [](int ranks, const std::vector<std::string>& overrides) {
    std::vector<std::string> all{equal};
    all.insert(all.end(), overrides.begin(), overrides.end());
    Recipe r = recipe_with(all);
    r.device = device::DeviceKind::cuda;
    SharedByRuns shared;
    return neediest_ranks(r, mesh::Layout(r.parallel.sizes(), ranks), RoutingLoad::even, shared).size();
  };
  EXPECT_EQ(stages(8, {}), 8U) << "eight stages on a node";
  EXPECT_EQ(stages(32, {"parallel.ep=4"}), 4U) << "two stages on a node";
  EXPECT_EQ(stages(64, {"parallel.ep=4", "parallel.tp=2", "parallel.etp=2", "parallel.sp=true"}), 3U)
      << "a stage on a node";
}

TEST(NeediestRanksOfGivenLoads, AreInAllStages) {
  const Recipe r = recipe_with({equal});
  const RoutingLoad given(ExpertShares(16, std::vector<double>{0.4, 0.3, 0.2, 0.1}));
  const mesh::Layout layout(r.parallel.sizes(), 8);
  SharedByRuns shared;
  EXPECT_EQ(neediest_ranks(r, layout, given, shared), distinct_ranks(r, layout, given));
}

TEST(NeediestRanksUnderAnOptimizerOfAProgram, AreInAllStages) {
  Recipe r = recipe_with({equal});
  const mesh::Layout layout(r.parallel.sizes(), 8);
  SharedByRuns shared;
  EXPECT_EQ(neediest_ranks(r, layout, RoutingLoad::even, shared).size(), 3U);
  r.optim.name = "a program's optimizer";
  EXPECT_EQ(neediest_ranks(r, layout, RoutingLoad::even, shared), distinct_ranks(r, layout, RoutingLoad::even));
}

}  // namespace
}  // namespace hexad::tests
