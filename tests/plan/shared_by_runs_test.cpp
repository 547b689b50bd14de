// Runs that share results, compared with runs that do not.
#include "tools/plan/shared_by_runs.h"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_forecast.h"
#include "tools/plan/step_on_meta.h"
#include "tools/plan/step_record.h"
#include "tools/train/recipe/stages.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int ranks = 4;

Recipe recipe_with(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=5", "train.precision=f32", "batch.micro=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

std::vector<Recipe> recipes() {
  return {recipe_with({"parallel.pp=4"}), recipe_with({"parallel.pp=2", "parallel.ep=2", "recompute=block"}),
          recipe_with({"parallel.pp=2", "schedule.pipeline.kind=interleaved", "parallel.zero=3"}),
          recipe_with({"parallel.ep=4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"})};
}

TEST(SharedByRuns, DoNotChangeTheRecordsOfSteps) {
  for (const Recipe& r : recipes()) {
    const mesh::Layout layout(r.parallel.sizes(), ranks);
    const auto shared = std::make_shared<SharedByRuns>();
    const std::vector<int64_t> micro_batches{6, 4};
    for (const int rank : {0, 1, ranks - 1}) {
      const auto expected = record_steps(r, {}, layout, rank, RoutingLoad::even, micro_batches),
                 actual = record_steps(train::with_stage_split(r, {}), {}, layout, rank, RoutingLoad::even,
                                       micro_batches, {}, shared);
      ASSERT_EQ(expected.size(), actual.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(expected[i].issues == actual[i].issues) << "rank " << rank << ", step " << i;
        EXPECT_TRUE(expected[i].groups == actual[i].groups);
      }
    }
  }
}

TEST(SharedByRuns, DoNotChangeTheMemoryOfRanks) {
  for (const Recipe& r : recipes()) {
    const mesh::Layout layout(r.parallel.sizes(), ranks);
    for (const RoutingLoad& load : {RoutingLoad(RoutingLoad::even), RoutingLoad(RoutingLoad::one_rank)}) {
      const auto shared = std::make_shared<SharedByRuns>();
      for (int rank = 0; rank < ranks; ++rank) {
        const StepOnMeta expected = step_on_meta(r, {}, layout, rank, load, Wanted::memory),
                         actual = step_on_meta(r, {}, layout, rank, load, Wanted::memory, shared);
        EXPECT_EQ(expected.memory.peak, actual.memory.peak) << "rank " << rank;
        EXPECT_EQ(expected.memory.peak_total, actual.memory.peak_total) << "rank " << rank;
        EXPECT_EQ(expected.memory.peak_held, actual.memory.peak_held) << "rank " << rank;
      }
    }
  }
}

TEST(SharedByRuns, DoNotChangeForecastsAndEstimatesOfLayouts) {
  const auto shared = std::make_shared<SharedByRuns>();
  const StepPrices prices(two_nodes(), ranks);
  for (int times = 0; times < 2; ++times)
    for (const Recipe& r : recipes()) {
      const mesh::Layout layout(r.parallel.sizes(), ranks);
      const StepForecast expected = forecast_step(r, {}, layout, prices),
                         actual = forecast_step(r, {}, layout, prices, RoutingLoad::even, shared);
      EXPECT_EQ(expected.seconds, actual.seconds);
      ASSERT_EQ(expected.records.size(), actual.records.size());
      for (size_t stage = 0; stage < expected.records.size(); ++stage)
        EXPECT_TRUE(expected.records[stage].issues == actual.records[stage].issues) << "stage " << stage;
      for (const RoutingLoad& load : {RoutingLoad(RoutingLoad::even), RoutingLoad(RoutingLoad::one_rank)})
        EXPECT_EQ(estimate_memory(r, {}, ranks, load).total, estimate_memory(r, {}, ranks, load, shared).total);
    }
  EXPECT_EQ(shared->counted_models(), 1) << "all layouts have the same model";
}

TEST(SharedByRuns, MakeChoicesOfALaterLayoutWithoutComputations) {
  const auto shared = std::make_shared<SharedByRuns>();
  const StepPrices prices(two_nodes(), ranks);
  const auto forecast = [&](const std::vector<std::string>& overrides) {
    const Recipe r = recipe_with(overrides);
    forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), ranks), prices, RoutingLoad::even, shared);
    return shared->results.computed();
  };
  const int64_t computed = forecast({"parallel.ep=2"});
  EXPECT_GT(computed, 0);
  EXPECT_EQ(forecast({"parallel.ep=2", "parallel.zero=3", "recompute=block"}), computed);
}

TEST(SharedByRuns, MakeEachComputationOnce) {
  const Recipe r = recipe_with({"parallel.ep=4"});
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  const auto shared = std::make_shared<SharedByRuns>();
  const auto run = [&] { step_on_meta(r, {}, layout, 0, RoutingLoad::even, Wanted::memory, shared); };
  run();
  const int64_t computed = shared->results.computed();
  EXPECT_GT(computed, 0);
  EXPECT_LT(computed, 5) << "all layers and micro-batches have equal routing";
  run();
  EXPECT_EQ(shared->results.computed(), computed);
}

TEST(SharedByRuns, ChooseExpertsLikeTheModelOfTheLoad) {
  SharedByRuns shared;
  const auto expect_choices = [&](const RoutingLoad& load, int rank, int ranks_of_experts,
                                  std::optional<double> capacity_factor, const device::MetaRun::Choice& choice) {
    for (const size_t slots : {8, 32}) {
      std::vector<int32_t> expected(slots), actual(slots);
      choose_experts(load, rank, ranks_of_experts, capacity_factor)(expected, choice);
      shared.choose(load, rank, ranks_of_experts, capacity_factor)(actual, choice);
      EXPECT_EQ(expected, actual) << "load " << static_cast<int>(load.kind()) << ", rank " << rank << " of "
                                  << ranks_of_experts << ", " << slots << " slots, top " << choice.top_k << ", layer "
                                  << choice.layer;
    }
  };
  const RoutingLoad given(ExpertShares{{0.4, 0.3, 0.2, 0.1}, {0.1, 0.1, 0.1, 0.7}}),
      other(ExpertShares{{0.25, 0.25, 0.25, 0.25}, {0.5, 0.5, 0, 0}});
  const std::vector<RoutingLoad> loads{RoutingLoad::even, RoutingLoad::p99, RoutingLoad::one_rank, given, other};
  for (int times = 0; times < 2; ++times)
    for (const RoutingLoad& load : loads)
      for (const int ranks_of_experts : {2, 4})
        for (const int rank : {0, 1})
          for (const std::optional<double> capacity_factor : {std::optional<double>(), std::optional<double>(1.0)})
            for (const int64_t layer : {0, 1})
              for (const device::MetaRun::Choice& choice :
                   {device::MetaRun::Choice{.top_k = 1, .experts = 4, .layer = layer},
                    device::MetaRun::Choice{.top_k = 2, .experts = 4, .layer = layer},
                    device::MetaRun::Choice{.top_k = 2, .experts = 4, .groups = 2, .top_groups = 1, .layer = layer}})
                expect_choices(load, rank, ranks_of_experts, capacity_factor, choice);
}

TEST(SharedByRuns, RefuseSharesOfAnotherNumberOfExperts) {
  SharedByRuns shared;
  const auto choose = shared.choose(RoutingLoad(ExpertShares{{0.4, 0.3, 0.2, 0.1}}), 0, 2, {});
  std::vector<int32_t> ids(8);
  choose(ids, {.top_k = 1, .experts = 4, .layer = 0});
  EXPECT_THROW(choose(ids, {.top_k = 1, .experts = 8, .layer = 0}), std::logic_error);
}

TEST(StageSplitOfARecipe, IsTheOneThatItsRunsUse) {
  SharedByRuns shared;
  for (const Recipe& r : recipes()) {
    const Recipe divided = train::with_stage_split(r, {});
    EXPECT_EQ(shared.divided(r, {}).schedule.pipeline.split, divided.schedule.pipeline.split);
    EXPECT_EQ(shared.divided(divided, {}).schedule.pipeline.split, divided.schedule.pipeline.split);
    const pp::StageSplit expected = train::stage_split(r, {}), actual = train::stage_split(divided, {});
    EXPECT_EQ(expected.counts(), actual.counts());
    EXPECT_EQ(divided.schedule.pipeline.split, r.parallel.pp > 1 ? expected.counts() : std::vector<int64_t>{});
  }
  EXPECT_EQ(shared.counted_models(), 1);
  Recipe deeper = recipes().front();
  deeper.model.layers += 2;
  EXPECT_EQ(shared.divided(deeper, {}).schedule.pipeline.split,
            train::with_stage_split(deeper, {}).schedule.pipeline.split);
  EXPECT_EQ(shared.counted_models(), 2);
}

TEST(StageSplitOfARecipe, IsNotKnownAfterAFailedCount) {
  SharedByRuns shared;
  Recipe r = recipes().front();
  r.model.moe.router = "a program's router";
  for (int times = 0; times < 2; ++times) EXPECT_THROW(shared.divided(r, {}), std::logic_error);
  EXPECT_EQ(shared.counted_models(), 0);
}

}  // namespace
}  // namespace hexad::tests
