#include "tools/check_cluster/robust.h"

#include <gtest/gtest.h>

namespace hexad::check_cluster {
namespace {

std::vector<size_t> slow_indices(const std::vector<double>& durations, const Rule& rule) {
  std::vector<size_t> indices;
  for (const Slow& slow : slow_values(durations, rule)) indices.push_back(slow.index);
  return indices;
}

using Indices = std::vector<size_t>;

TEST(SlowValues, NoneOfFewerThanTwoIsSlow) {
  EXPECT_TRUE(slow_values({}, {.ratio = 1.5}).empty());
  EXPECT_TRUE(slow_values(std::vector<double>{7}, {.ratio = 1.5}).empty());
}

TEST(SlowValues, LargerOfTwoIsComparedWithTheSmaller) {
  const auto slow = slow_values(std::vector<double>{2, 6}, {.ratio = 2});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].index, 1u);
  EXPECT_EQ(slow[0].reference, 2);
  EXPECT_EQ(slow[0].times, 3);
}

TEST(SlowValues, HalfOfTheValuesCanBeSlow) {
  EXPECT_EQ(slow_indices({1, 4, 1, 4}, {.ratio = 2}), (Indices{1, 3}));
  EXPECT_EQ(slow_indices({1, 4, 4}, {.ratio = 2}), (Indices{1, 2}));
}

TEST(SlowValues, EqualValuesAreNotSlow) { EXPECT_TRUE(slow_indices({3, 3, 3, 3}, {.ratio = 1}).empty()); }

TEST(SlowValues, RatioMustBeReached) {
  EXPECT_TRUE(slow_indices({10, 10, 10, 14}, {.ratio = 1.5}).empty());
  EXPECT_EQ(slow_indices({10, 10, 10, 15}, {.ratio = 1.5}), Indices{3});
}

TEST(SlowValues, ExcessMustBeReached) {
  EXPECT_TRUE(slow_indices({1, 1, 5}, {.ratio = 2, .least_excess = 5}).empty());
  EXPECT_EQ(slow_indices({1, 1, 5}, {.ratio = 2, .least_excess = 4}), Indices{2});
}

TEST(SlowValues, WideSpreadHidesSlowValues) {
  // The median absolute deviation is 3, so a value must exceed the others' median by more than 17.8.
  EXPECT_TRUE(slow_indices({2, 5, 8, 11, 14, 20}, {.ratio = 2}).empty());
  EXPECT_EQ(slow_indices({2, 5, 8, 11, 14, 40}, {.ratio = 2}), Indices{5});
}

}  // namespace
}  // namespace hexad::check_cluster
