// Peak FLOP/s, relative to which MFU is computed.
#include "tools/train/report/peak_meter.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
namespace {

constexpr double long_step = 1e6;  // seconds, much longer than a sample

TEST(PeakMeter, PeakOfTheRecipeIsAddedForEachRankAndNeverChanges) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe({"train.peak_flops=3e9"});
    PeakMeter peak(recipe, world);
    EXPECT_EQ(peak.peak_of_all_ranks(), 6e9);
    peak.after_step(long_step, 1e30);
    EXPECT_EQ(peak.peak_of_all_ranks(), 6e9);
  });
}

TEST(PeakMeter, EveryRankGetsTheSamePeakThatNeverFalls) {
  std::vector<std::vector<double>> peaks(2);
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe({"train.peak_flops=auto"});
    PeakMeter peak(recipe, world);
    auto& mine = peaks[world.rank()];
    for (int step = 0; step < 3; ++step) {
      mine.push_back(peak.peak_of_all_ranks());
      peak.after_step(long_step, 1);
    }
  });
  EXPECT_EQ(peaks[0], peaks[1]);
  EXPECT_GT(peaks[0].front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(peaks[0])) << "later samples never lower the peak";
}

TEST(PeakMeter, ShortStepsDoNotChangeThePeak) {
  const comm::SelfGroup self;
  const Recipe recipe = small_recipe({"train.peak_flops=auto"});
  PeakMeter peak(recipe, self);
  const double before = peak.peak_of_all_ranks();
  for (int step = 0; step < 100; ++step) peak.after_step(1e-9, 1);
  EXPECT_EQ(peak.peak_of_all_ranks(), before);
}

}  // namespace
}  // namespace hexad::tests
