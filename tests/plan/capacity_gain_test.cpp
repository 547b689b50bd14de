// Layouts for more memory on each rank, and for twice the ranks.
#include "tools/plan/capacity_gain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/plan/planned_recipe.h"
#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

const std::vector<std::string> small_batches{"device=cuda", "parallel.zero=1", "batch.micro=1"};
const std::vector<std::string> large_batches{"device=cuda", "parallel.zero=1", "batch.micro=4"};

config::Document document() { return config::parse(yaml, "plan.yaml", small_batches); }

// Returns the layout that `overrides` give, with its memory and its simulated step on two_nodes().
PlannedLayout simulated(const std::vector<std::string>& overrides, int64_t world = ranks) {
  return layout_as_is(config::parse(yaml, "plan.yaml", overrides), {}, two_nodes(), {.world = world});
}

class MoreMemory : public testing::Test {
 protected:
  // Returns the gain of more memory over best_, the layout with small micro-batches, if a rank has `memory` bytes.
  std::optional<PlannedLayout> gain(double memory) {
    const PlanSite site{.rules = rules_,
                        .extensions = extensions_,
                        .prices = prices_,
                        .request = request_,
                        .memory = memory,
                        .host_memory = 1e12};
    return with_more_memory(best_, {excluded_}, site);
  }

  const PlannedLayout best_ = simulated(small_batches), excluded_ = simulated(large_batches);

 private:
  const train::Extensions extensions_;
  const PlanRequest request_{.world = ranks};
  LayoutRules rules_{document(), extensions_, ranks};
  const StepPrices prices_{two_nodes(), ranks};
};

TEST_F(MoreMemory, GainsTheFasterLayoutThatMemoryExcluded) {
  ASSERT_LT(excluded_.step.seconds, best_.step.seconds) << "larger micro-batches must be faster";
  const std::optional<PlannedLayout> found = gain(excluded_.memory.total / 1.1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->candidate.recipe.batch.micro, 4);
  EXPECT_EQ(found->step.seconds, excluded_.step.seconds);
  EXPECT_EQ(found->memory.total, excluded_.memory.total);
}

TEST_F(MoreMemory, GainsNothingFromALayoutThatIsStillTooLarge) { EXPECT_FALSE(gain(excluded_.memory.total / 1.5)); }

TEST_F(MoreMemory, GainsNothingFromALayoutThatFitsAnyway) { EXPECT_FALSE(gain(excluded_.memory.total)); }

TEST(WithinMoreMemory, KeepsTheThreeShortestThatAreNotFarTooLarge) {
  std::vector<PlannedLayout> layouts;
  for (const auto& [seconds, memory] : {std::pair(5.0, 10.0), {1.0, 20.0}, {4.0, 12.0}, {2.0, 14.0}, {3.0, 11.0}})
    layouts.push_back({.candidate = {recipe_of(yaml)}, .composed = {.seconds = seconds, .memory = memory}});
  const std::vector<PlannedLayout> some = within_more_memory(layouts, 10);
  ASSERT_EQ(some.size(), 3U);
  EXPECT_EQ(some[0].composed.seconds, 2);
  EXPECT_EQ(some[1].composed.seconds, 3);
  EXPECT_EQ(some[2].composed.seconds, 4);
}

// Ranks also divide the gradients under ZeRO-2. Therefore, the state can be small enough under ZeRO-2 even if it is far
// too large under ZeRO-1.
TEST(LargerState, IsAlsoThatOfTheVariantsOfALayout) {
  const PlanCandidate layout{recipe_of(yaml, {"device=cuda", "parallel.zero=1", "recompute=none"}, ranks)};
  const StateBound state(layout.recipe, layers::parameter_counts(layout.recipe.model, {}), two_nodes());
  Recipe with_zero_2 = layout.recipe;
  with_zero_2.parallel.zero = 2;
  const double one = state.layout_bytes(layout.recipe, ranks), two = state.layout_bytes(with_zero_2, ranks);
  ASSERT_GT(one, memory_more * two);
  const auto found = [&](double memory) {
    std::vector<std::pair<int64_t, layers::Recompute>> all;
    for (const PlanCandidate& c : with_larger_state({layout}, state, ranks, memory))
      all.emplace_back(c.recipe.parallel.zero, c.recipe.recompute);
    return all;
  };
  using Found = std::vector<std::pair<int64_t, layers::Recompute>>;
  EXPECT_EQ(found(two / 1.1), (Found{{2, layers::Recompute::none}, {2, layers::Recompute::norms}}));
  EXPECT_EQ(found(one / 1.1), (Found{{1, layers::Recompute::none}, {1, layers::Recompute::norms}}));
  EXPECT_EQ(found(two / 2), Found{});
  EXPECT_EQ(found(2 * one), Found{});
}

TEST(Neighbours, DifferInOneSizeAtMost) {
  const PlanCandidate best{recipe_of(yaml, {"parallel.ep=2"}, ranks)};
  const std::vector<PlanCandidate> some =
      neighbours_of(best, {{recipe_of(yaml, {"parallel.ep=2", "parallel.zero=1"}, ranks)},
                           {recipe_of(yaml, {"parallel.ep=8"}, ranks)},
                           {recipe_of(yaml, {"parallel.ep=8", "parallel.pp=2"}, ranks)}});
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].recipe.parallel.zero, 1);
  EXPECT_EQ(some[1].recipe.parallel.ep, 8);
}

TEST(TwiceTheRanks, HaveASimulatedLayoutThatFits) {
  const train::Extensions extensions;
  SharedCosts costs;
  constexpr int64_t half = ranks / 2;
  const std::optional<PlannedLayout> found = on_twice_the_ranks(simulated(small_batches, half), document(), extensions,
                                                                two_nodes(), {.world = half}, 80e9, costs);
  ASSERT_TRUE(found);
  const Recipe& r = found->candidate.recipe;
  EXPECT_FALSE(LayoutRules(document(), {}, ranks).broken(r));
  EXPECT_EQ(found->step.seconds,
            forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), ranks), StepPrices(two_nodes(), ranks)).seconds);
  EXPECT_LE(found->memory.total, 80e9);
  EXPECT_FALSE(on_twice_the_ranks(simulated(small_batches, half), document(), extensions, two_nodes(), {.world = half},
                                  1e6, costs))
      << "no layout fits 1 MB";
}

TEST(TwiceTheRanks, HaveALayoutIfTheNumberOfStagesIsNoPowerOfTwo) {
  const train::Extensions extensions;
  const std::vector<std::string> six_stages{"device=cuda", "model.layers=12", "batch.global=4", "parallel.pp=6"};
  SharedCosts costs;
  EXPECT_TRUE(on_twice_the_ranks(simulated(six_stages, 6), config::parse(yaml, "plan.yaml", six_stages), extensions,
                                 two_nodes(), {.world = 6}, 80e9, costs));
}

TEST(TwiceTheRanks, HaveNoLayoutIfTheClusterHasFewerRanks) {
  SharedCosts costs;
  EXPECT_FALSE(
      on_twice_the_ranks(simulated(small_batches), document(), {}, two_nodes(), {.world = ranks}, 80e9, costs));
}

TEST(Plan, HasTheGainsOfCapacityWithDetails) {
  constexpr int64_t half = ranks / 2;
  const auto planned = [](Objective objective, bool details) {
    return search_plan(document(), recipe_of(yaml, small_batches), {}, two_nodes(),
                       {.world = half, .objective = objective, .wanted = 2, .details = details});
  };
  const Plan plan = planned(Objective::time, true);
  ASSERT_TRUE(plan.capacity);
  EXPECT_FALSE(plan.capacity->more_memory) << "all layouts fit 80 GB";
  ASSERT_TRUE(plan.capacity->twice_ranks);
  EXPECT_LE(plan.capacity->twice_ranks->memory.total, plan.memory);
  EXPECT_FALSE(planned(Objective::time, false).capacity);
  EXPECT_FALSE(planned(Objective::memory, true).capacity);
}

}  // namespace
}  // namespace hexad::tests
