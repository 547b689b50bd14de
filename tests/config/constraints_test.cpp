#include "framework/config/constraints.h"

#include <gtest/gtest.h>

namespace hexad::config {
namespace {

TEST(Constraint, IsExactAtItsBounds) {
  EXPECT_TRUE(at_least(3).holds(3));
  EXPECT_FALSE(at_least(3).holds(2));
  EXPECT_TRUE(at_most(3).holds(3));
  EXPECT_FALSE(at_most(3).holds(4));
  EXPECT_TRUE(between(1, 2).holds(1) && between(1, 2).holds(2));
  EXPECT_FALSE(between(1, 2).holds(0) || between(1, 2).holds(3));
  EXPECT_FALSE(greater_than(0).holds(0));
  EXPECT_FALSE(less_than(1).holds(1));
  EXPECT_TRUE(probability().holds(0) && probability().holds(1));
  EXPECT_FALSE(probability().holds(1.0000001L));
}

TEST(Constraint, SeparatesNeighboursBeyondTheIntegersOfADouble) {
  constexpr int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_FALSE(at_most(big - 1).holds(big));
  EXPECT_FALSE(divisible_by(2).holds(big));
}

TEST(Constraint, PowerOfTwoHoldsOnlyForPowersOfTwoAndSuggestsThem) {
  for (int64_t n : {1, 2, 4, 1024}) EXPECT_TRUE(power_of_two().holds(n)) << n;
  for (int64_t n : {-2, 0, 3, 6, 1023}) EXPECT_FALSE(power_of_two().holds(n)) << n;
  EXPECT_EQ(power_of_two().nearest(5), "4, 8");
  EXPECT_EQ(power_of_two().nearest(-3), "1");
}

TEST(Constraint, DescribesTheLegalValues) {
  EXPECT_EQ(at_least(1).must(), "be at least 1");
  EXPECT_EQ(between(0.5, 2).must(), "be between 0.5 and 2");
  EXPECT_EQ(divisible_by(8).must(), "be divisible by 8");
  EXPECT_EQ(non_empty().must(), "not be empty");
  EXPECT_EQ(size_exactly(2).must(), "have a size of 2");
  EXPECT_EQ(less_than(1e-6L).must(), "be less than 1e-06");
  EXPECT_EQ(probability().legal(), "0 to 1");
  EXPECT_EQ(positive().legal(), "> 0");
}

TEST(NearestMultiples, AreOnBothSides) {
  EXPECT_EQ(nearest_multiples(63, 8), "56, 64");
  EXPECT_EQ(nearest_multiples(3, 8), "8");
  EXPECT_EQ(nearest_multiples(-5, 8), "8");
  EXPECT_EQ(nearest_multiples(64, 8), "64");
  EXPECT_EQ(nearest_multiples(INT64_MAX, 8), "9223372036854775800");
  EXPECT_THROW(nearest_multiples(1, 0), std::logic_error);
}

}  // namespace
}  // namespace hexad::config
