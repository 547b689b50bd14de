// Choices of a schedule that are repeated when the load of the experts changes.
#include <gtest/gtest.h>

#include "tests/plan/schedule_choices.h"
#include "tests/training/training.h"
#include "tools/plan/schedule_choice.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

// Loads of four experts on two ranks. Under the even load, each expert gets 16 rows. Under the skewed load, the first
// two experts get 32 rows each.
const ExpertShares even_load{{0.25, 0.25, 0.25, 0.25}}, skewed_load{{0.5, 0.5, 0, 0}};

// Calls `body` with a function that chooses between grouped and dense products. Dense products are four times as fast
// as grouped products. They are used if the experts with rows have at least 24 rows on average.
template <class F>
void with_choice_of_gemms(const F& body) {
  const Recipe recipe = small_recipe(
      {"parallel.ep=2", "schedule.moe.gemms=auto", "schedule.moe.dense_rows=24", "schedule.moe.trial_share=0"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = machine(1e-7, 1e12, 1e8);
    predictor.rates.dense.fill(schedule::TimeCurve::linear(1e-7, 4e8));
    body([&] { return ScheduleChoice(recipe, run.instance, predictor, world); });
  });
}

TEST(ScheduleChoice, IsMadeAnewWhenTheLoadDrifts) {
  with_choice_of_gemms([](const auto& make) {
    ScheduleChoice choice = make();
    ASSERT_TRUE(choice.made());
    EXPECT_EQ(choice.current().schedule.gemms, moe::Gemms::grouped) << "no expert gets enough rows for dense products";
    const auto even = choice.redecide(10, even_load);
    ASSERT_TRUE(even);
    EXPECT_FALSE(even->switched);
    EXPECT_DOUBLE_EQ(even->imbalance, 1);
    const auto skewed = choice.redecide(20, skewed_load);
    ASSERT_TRUE(skewed);
    EXPECT_TRUE(skewed->switched);
    EXPECT_DOUBLE_EQ(skewed->imbalance, 2);
    EXPECT_GT(skewed->gain, 0.05);
    EXPECT_TRUE(skewed->same_bits) << "grouped and dense products are bitwise identical on a CPU";
    EXPECT_EQ(choice.current().schedule.gemms, moe::Gemms::by_load);
    EXPECT_EQ(moe::to_string(choice.current().schedule), skewed->fastest);
    EXPECT_FALSE(choice.redecide(30, {})) << "without loads, nothing is decided";
    EXPECT_FALSE(choice.redecide(40, skewed_load)->switched);
  });
}

TEST(ScheduleChoice, KeepsItsSwitchesWhenItIsResumed) {
  with_choice_of_gemms([](const auto& make) {
    ScheduleChoice choice = make();
    choice.redecide(20, skewed_load);
    const std::string chosen = moe::to_string(choice.current().schedule), state = choice.state();
    EXPECT_NE(state.find("\"step\":20"), std::string::npos) << state;
    ScheduleChoice resumed = make();
    ASSERT_TRUE(resumed.resume(chosen, state));
    EXPECT_TRUE(resumed.made());
    EXPECT_EQ(resumed.current().schedule, choice.current().schedule);
    EXPECT_EQ(resumed.state(), state);
    for (const ExpertShares& load : {even_load, skewed_load}) {
      const auto first = choice.redecide(30, load), second = resumed.redecide(30, load);
      ASSERT_TRUE(first && second);
      EXPECT_EQ(first->fastest, second->fastest);
      EXPECT_EQ(first->gain, second->gain);
    }
  });
}

}  // namespace
}  // namespace hexad::tests
