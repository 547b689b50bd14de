#include "framework/base/median.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace hexad::base {
namespace {

TEST(Median, IsTheMeanOfTheTwoMiddleValues) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1}), 2.5);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({9, 1, 5, 7}), 6);
}

TEST(Median, IgnoresValuesThatAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity(), unknown = std::nan("");
  EXPECT_EQ(median({unknown, 2, infinity, 1, 3, -infinity}), 2);
  EXPECT_TRUE(std::isnan(median({unknown})));
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(LowerMedian, IsTheSmallerOfTheTwoMiddleValues) {
  EXPECT_EQ(lower_median({3}), 3);
  EXPECT_EQ(lower_median({4, 1}), 1);
  EXPECT_EQ(lower_median({9, 1, 5}), 5);
  EXPECT_EQ(lower_median({9, 1, 5, 7}), 5);
  EXPECT_THROW(lower_median({}), std::logic_error);
}

}  // namespace
}  // namespace hexad::base
