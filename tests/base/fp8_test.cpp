#include "framework/base/fp8.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "framework/base/philox.h"

namespace hexad::base {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr uint8_t finite_codes = 0x7f;  // number of finite codes without a sign bit: 0x00 .. 0x7e

static_assert(e4m3(1.0f).bits == 0x38 && static_cast<float>(e4m3::from_bits(0x38)) == 1.0f,
              "e4m3 must be usable in constant expressions");

// Returns the value of a code that is not NaN, by the formula of the specification.
double value_of(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return code & 0x80 ? -magnitude : magnitude;
}

// Returns the nearest finite code, found by comparing all finite codes. If two codes are equally near, returns the even
// code.
int nearest(double v) {
  int best = 0;
  for (int code = 1; code < finite_codes; ++code) {
    const double here = std::abs(value_of(code) - std::abs(v)), there = std::abs(value_of(best) - std::abs(v));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(v) ? 0x80 : 0);
}

TEST(E4m3, HasTheValuesOfTheSpecification) {
  for (int code = 0; code < 256; ++code) {
    const auto value = static_cast<float>(e4m3::from_bits(static_cast<uint8_t>(code)));
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    if ((code & 0x7f) == e4m3::nan)
      EXPECT_TRUE(std::isnan(value)) << code;
    else
      EXPECT_EQ(value, value_of(code)) << code;
  }
  EXPECT_EQ(value_of(0x7e), e4m3::largest);
  EXPECT_EQ(value_of(0x08), e4m3::smallest_normal);
  EXPECT_EQ(value_of(0x01), e4m3::smallest);
}

TEST(E4m3, RoundTripsEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    EXPECT_EQ(e4m3(static_cast<float>(e4m3::from_bits(bits))).bits, bits);
  }
}

// Rounding is monotonic. Therefore, the code is constant between two boundaries if the inner neighbours of both
// boundaries have the same code.
TEST(E4m3, RoundsToTheNearestAtEveryBoundaryAndTheMiddleToTheEvenCode) {
  for (int code = 0; code + 1 < finite_codes; ++code) {
    const auto middle = static_cast<float>((value_of(code) + value_of(code + 1)) / 2);  // this value is exact
    const auto expect = [&](float v, int want) {
      EXPECT_EQ(e4m3(v).bits, want) << v;
      EXPECT_EQ(e4m3(-v).bits, want | 0x80) << -v;
    };
    expect(middle, code % 2 == 0 ? code : code + 1);
    expect(std::nextafter(middle, 0.0f), code);
    expect(std::nextafter(middle, inf), code + 1);
  }
}

TEST(E4m3, SaturatesBeyond448) {
  for (float v :
       {448.0f, std::nextafter(448.0f, inf), 463.9f, 464.0f, 480.0f, 1e30f, std::numeric_limits<float>::max(), inf}) {
    EXPECT_EQ(e4m3(v).bits, 0x7e) << v;
    EXPECT_EQ(e4m3(-v).bits, 0xfe) << -v;
  }
}

TEST(E4m3, KeepsNaNAndItsSign) {
  EXPECT_EQ(e4m3(nan).bits, 0x7f);
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu}) {
    EXPECT_EQ(e4m3(std::bit_cast<float>(bits)).bits, 0x7f);
    EXPECT_EQ(e4m3(std::bit_cast<float>(bits | 0x80000000u)).bits, 0xff);
  }
}

TEST(E4m3, KeepsTheSignOfZeroAndOfTinyValues) {
  for (float v : {0.0f, std::numeric_limits<float>::denorm_min(), 0x1p-10f}) {
    EXPECT_EQ(e4m3(v).bits, 0x00) << v;
    EXPECT_EQ(e4m3(-v).bits, 0x80) << -v;
  }
}

// Calls a function with seeded values of both signs. Their magnitudes are in every binade from [2^-14, 2^-13) to
// [2^7, 2^8), and in [2^8, 448]. The smallest positive code is 2^-9.
class E4m3Sample : public ::testing::Test {
 protected:
  static constexpr uint64_t seed = 20240611;

  template <class F>
  void for_each(const F& f) {
    const Philox random(seed, Purpose::synthetic);
    for (uint64_t i = 0; i < 200000; ++i) {
      const int exponent = static_cast<int>(random.below(2 * i, 23)) - 14;
      const uint64_t bits = random.below(2 * i + 1, uint64_t{1} << 24);
      const auto v = static_cast<float>(std::ldexp(1 + std::ldexp(static_cast<double>(bits >> 1), -23), exponent));
      if (v <= e4m3::largest) f(bits & 1 ? -v : v);
    }
  }
};

TEST_F(E4m3Sample, RoundsToTheNearestOfAllCodes) {
  for_each([](float v) { ASSERT_EQ(e4m3(v).bits, nearest(v)) << v; });
}

TEST_F(E4m3Sample, KeepsTheStatedErrorBounds) {
  double worst_normal = 0, worst_subnormal = 0;
  for_each([&](float v) {
    const double error = std::abs(static_cast<double>(static_cast<float>(e4m3(v))) - v), magnitude = std::abs(v);
    if (magnitude >= e4m3::smallest_normal)
      worst_normal = std::max(worst_normal, error / magnitude);
    else
      worst_subnormal = std::max(worst_subnormal, error);
  });
  EXPECT_LE(worst_normal, e4m3::relative_error);
  EXPECT_LE(worst_subnormal, e4m3::absolute_error);
  // The bounds are tight: 1.0625 changes by a seventeenth of its value, and 2^-10 becomes zero.
  EXPECT_GT(worst_normal, 0.94 * e4m3::relative_error);
  EXPECT_GT(worst_subnormal, 0.99 * e4m3::absolute_error);
}

}  // namespace
}  // namespace hexad::base
