#include "tools/scale/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace hexad::scale {
namespace {

std::vector<int64_t> points_of_repeat(const std::vector<Execution>& order, int64_t repeat) {
  std::vector<int64_t> points;
  for (const Execution& e : order)
    if (e.repeat == repeat) points.push_back(e.point);
  return points;
}

TEST(ScaleOrder, EveryPointRunsOnceBeforeAnyRunsAgain) {
  const std::vector<Execution> order = shuffled_order(7, 3, 1);
  ASSERT_EQ(order.size(), 21u);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i].repeat, static_cast<int64_t>(i) / 7 + 1);
  for (int64_t repeat = 1; repeat <= 3; ++repeat) {
    const std::vector<int64_t> points = points_of_repeat(order, repeat);
    EXPECT_EQ(std::set<int64_t>(points.begin(), points.end()).size(), 7u);
  }
}

TEST(ScaleOrder, RepeatsHaveDifferentOrders) {
  const std::vector<Execution> order = shuffled_order(20, 2, 1);
  EXPECT_NE(points_of_repeat(order, 1), points_of_repeat(order, 2));
}

TEST(ScaleOrder, OnlyTheSeedChangesTheOrder) {
  EXPECT_EQ(shuffled_order(20, 2, 1), shuffled_order(20, 2, 1));
  EXPECT_NE(shuffled_order(20, 2, 1), shuffled_order(20, 2, 2));
}

}  // namespace
}  // namespace hexad::scale
