#include "framework/base/main_weight.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "framework/base/dtype.h"

namespace hexad::base {
namespace {

float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// Splits a main weight into its bf16 weight, rest and mark, and returns the main weight joined from them.
float rejoined(float main) { return main_of(bf16(main).bits, rest_of(main), marked(main)); }

TEST(MainWeight, IsJoinedBitwiseFromEveryUpperHalfWithEveryKindOfRest) {
  for (uint32_t upper = 0; upper < 1u << 16; ++upper)
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x1234u, 0x7fffu, 0x8000u, 0x8001u, 0xabcdu, 0xffffu}) {
      const float main = of_bits(upper << 16 | lower);
      if (std::isnan(main))
        ASSERT_TRUE(std::isnan(rejoined(main))) << std::hex << upper << " " << lower;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(rejoined(main)), upper << 16 | lower) << std::hex;
    }
}

TEST(MainWeight, IsJoinedBitwiseFromEveryRest) {
  for (const uint32_t upper : {0x0000u, 0x3f80u, 0x3f81u, 0x7f7fu, 0x8000u, 0xbf80u, 0xbf81u, 0xff7fu})
    for (uint32_t lower = 0; lower < 1u << 16; ++lower)
      ASSERT_EQ(std::bit_cast<uint32_t>(rejoined(of_bits(upper << 16 | lower))), upper << 16 | lower) << std::hex;
}

TEST(MainWeight, OnlyRoundedUpTiesAreMarked) {
  EXPECT_FALSE(marked(of_bits(0x3f808000)));  // between the even 0x3f80 and 0x3f81
  EXPECT_TRUE(marked(of_bits(0x3f818000)));   // between 0x3f81 and the even 0x3f82
  EXPECT_TRUE(marked(of_bits(0xbf818000)));
  EXPECT_FALSE(marked(of_bits(0x3f818001)));
  EXPECT_FALSE(marked(of_bits(0x3f817fff)));
  EXPECT_FALSE(marked(of_bits(0x3f810000)));
}

TEST(MainWeight, MarkIsTheSignOfAMoment) {
  const auto half = std::bit_cast<uint32_t>(0.5f), zero = uint32_t{0};
  EXPECT_EQ(std::bit_cast<float>(with_mark(half, true)), -0.5f);
  EXPECT_EQ(std::bit_cast<float>(with_mark(with_mark(half, true), false)), 0.5f);
  EXPECT_TRUE(has_mark(with_mark(zero, true)));
  EXPECT_FALSE(has_mark(with_mark(zero, false)));
  const uint16_t small = bf16(0.5f).bits;
  EXPECT_EQ(with_mark(small, true), bf16(-0.5f).bits);
  EXPECT_TRUE(has_mark(with_mark(small, true)));
  EXPECT_FALSE(has_mark(small));
}

}  // namespace
}  // namespace hexad::base
