#include "framework/base/random_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "framework/base/dtype.h"

namespace hexad::base {
namespace {

constexpr uint32_t key = 0x9e3779b9, count = 1 << 16;

float rounded(float v, uint32_t random) {
  bf16 result;
  result.bits = bf16_bits_at_random(v, random);
  return static_cast<float>(result);
}

// A resumed run continues bit for bit only if these bits never change.
TEST(RandomBits, MatchKnownValues) {
  EXPECT_EQ(random_bits(0, 1), 0x688990c0u);
  EXPECT_EQ(random_bits(0, 2), 0xd1132181u);
  EXPECT_EQ(random_bits(key, 12345), 0x6f6344e1u);
}

// bf16 numbers in [1, 2) are 2^-7 apart. Each half of the random bits rounds one value.
TEST(RandomRounding, GivesTheNeighboursWithTheExactMean) {
  constexpr double step = 0x1p-7;
  for (const double share : {0.001, 0.25, 0.5, 0.8}) {
    const auto v = static_cast<float>(1 + share * step);
    double lower = 0, upper = 0, product = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t random = random_bits(key, i);
      const double a = (rounded(v, random) - 1) / step, b = (-rounded(-v, random >> 16) - 1) / step;
      ASSERT_TRUE((a == 0 || a == 1) && (b == 0 || b == 1)) << i << ": " << a << " " << b;
      lower += a, upper += b, product += a * b;
    }
    constexpr double allowed = 6 * 0.5 / 256;  // six standard deviations of the mean of 2^16 fair coin flips
    EXPECT_NEAR(lower / count, share, allowed);
    EXPECT_NEAR(upper / count, share, allowed);
    EXPECT_NEAR(product / count, share * share, allowed) << "both halves of the random bits must be independent";
  }
}

TEST(RandomRounding, KeepsValuesOfBf16InfinityAndNan) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float v : {0.0f, -0.0f, 1.0f, -1.0078125f, 0x1p-133f, 0x1.fep127f, inf, -inf})
    EXPECT_EQ(std::bit_cast<uint32_t>(rounded(v, 0xffffffffu)), std::bit_cast<uint32_t>(v)) << v;
  for (const uint32_t bits : {0x7f800001u, 0xffffffffu, 0x7fffffffu})
    EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(bits), 0xffffffffu))) << bits;
}

}  // namespace
}  // namespace hexad::base
