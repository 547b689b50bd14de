// Reuse of freed ranges of any size.
#include "framework/device/free_ranges.h"

#include <gtest/gtest.h>

namespace hexad::device {
namespace {

TEST(FreeRanges, JoinTheirNeighboursOnBothSides) {
  FreeRanges free;
  free.give(0, 10), free.give(20, 10);
  EXPECT_EQ(free.take(11), std::nullopt);
  free.give(10, 10);
  EXPECT_EQ(free.take(30), 0);
  EXPECT_EQ(free.take(1), std::nullopt);
}

TEST(FreeRanges, SmallestSufficientRangeIsTaken) {
  FreeRanges free;
  free.give(0, 30), free.give(40, 10), free.give(60, 20);
  EXPECT_EQ(free.take(10), 40);
  EXPECT_EQ(free.take(15), 60);
  EXPECT_EQ(free.take(5), 75) << "the rest of the range remains free";
  EXPECT_EQ(free.take(30), 0);
}

TEST(FreeRanges, TakeTailTakesOnlyTheRangeAtTheEnd) {
  FreeRanges free;
  EXPECT_EQ(free.take_tail(100), 100);
  free.give(0, 10), free.give(90, 10);
  EXPECT_EQ(free.take_tail(120), 120);
  EXPECT_EQ(free.take_tail(100), 90);
  EXPECT_EQ(free.take_tail(100), 100);
  EXPECT_EQ(free.take(10), 0);
}

}  // namespace
}  // namespace hexad::device
