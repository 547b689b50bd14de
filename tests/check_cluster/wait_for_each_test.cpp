#include "tools/check_cluster/wait_for_each.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace hexad::check_cluster {
namespace {

TEST(WaitForEach, EndsAtOnceIfAllConditionsHold) {
  int looks = 0;
  const auto seconds = wait_for_each(3, 1e9, [&](size_t) { return ++looks > 0; });
  EXPECT_EQ(looks, 3);
  for (const auto& s : seconds) EXPECT_EQ(s, 0);
  EXPECT_TRUE(wait_for_each(0, 1e9, [](size_t) { return false; }).empty());
}

TEST(WaitForEach, ConditionThatNeverHoldsTakesNoTimeFromOthers) {
  std::vector<int> looks(3, 0);
  const auto seconds = wait_for_each(3, 0, [&](size_t i) { return ++looks[i] == 2 && i > 0; });
  EXPECT_EQ(seconds[0], std::nullopt);
  EXPECT_EQ(looks, (std::vector<int>{2, 2, 2}));
  for (const size_t i : {1, 2}) {
    ASSERT_TRUE(seconds[i].has_value()) << "condition " << i;
    EXPECT_GT(*seconds[i], 0) << "condition " << i;
  }
}

TEST(WaitForEach, MeasuresTheTimeOfEachCondition) {
  std::vector<int> looks(2, 0);
  const auto seconds = wait_for_each(2, 1e9, [&](size_t i) { return ++looks[i] == (i == 0 ? 4 : 2); });
  ASSERT_TRUE(seconds[0].has_value() && seconds[1].has_value());
  EXPECT_LT(*seconds[1], *seconds[0]);
  EXPECT_EQ(looks, (std::vector<int>{4, 2})) << "conditions that have held are not evaluated again";
}

}  // namespace
}  // namespace hexad::check_cluster
