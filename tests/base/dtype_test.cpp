#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/base/dtype.h"

namespace hexad::base {
namespace {

constexpr auto all = {Dtype::f32, Dtype::bf16, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8};
float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bf16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bf16(-2.0f).bits, 0xc000);
  EXPECT_EQ(bf16(0.0f).bits, 0x0000);
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
}

TEST(Bf16, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16(wide)))) << bits;
    else
      EXPECT_EQ(bf16(wide).bits, bits);
  }
}

TEST(Bf16, RoundsToTheNearest) {
  EXPECT_EQ(bf16(from_bits(0x3f807fff)).bits, 0x3f80);  // just below the midpoint
  EXPECT_EQ(bf16(from_bits(0x3f808001)).bits, 0x3f81);  // just above the midpoint
}

TEST(Bf16, RoundsTheMiddleToTheEvenNeighbour) {
  EXPECT_EQ(bf16(from_bits(0x3f808000)).bits, 0x3f80);
  EXPECT_EQ(bf16(from_bits(0x3f818000)).bits, 0x3f82);
  EXPECT_EQ(bf16(from_bits(0xbf808000)).bits, 0xbf80);
  EXPECT_EQ(bf16(from_bits(0xbf818000)).bits, 0xbf82);
}

TEST(Bf16, KeepsInfinityAndOverflowsToIt) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bf16(inf).bits, 0x7f80);
  EXPECT_EQ(bf16(-inf).bits, 0xff80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(bf16(from_bits(0x7f7f7fff)).bits, 0x7f7f);  // the largest float that does not round to infinity
}

TEST(Bf16, KeepsNaNAndItsSign) {
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const bf16 value(from_bits(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << bits;
    EXPECT_EQ(value.bits >> 15, bits >> 31) << "sign of " << bits;
  }
}

TEST(Bf16, KeepsSubnormals) {
  EXPECT_EQ(bf16(from_bits(0x00010000)).bits, 0x0001);
  EXPECT_EQ(bf16(from_bits(0x00008000)).bits, 0x0000);  // the midpoint rounds to even
  EXPECT_EQ(bf16(from_bits(0x00018000)).bits, 0x0002);
}

TEST(Dtype, NamesRoundTrip) {
  for (Dtype d : all) EXPECT_EQ(dtype_from_name(name_of(d)), d);
  EXPECT_EQ(name_of(Dtype::bf16), "bf16");
}

TEST(Dtype, UnknownNameIsAUsageErrorWithTheLegalNames) {
  try {
    dtype_from_name("float32");
    FAIL() << "no error was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "unknown dtype 'float32'; expected f32, bf16, f64, i32, i64 or u8");
  }
}

TEST(Dtype, SizesMatchTheTypes) {
  for (Dtype d : all)
    with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("sizes", d, [&]<class T>() {
      EXPECT_EQ(size_of(d), static_cast<int64_t>(sizeof(T))) << d;
      EXPECT_EQ(dtype_of<T>, d);
    });
}

TEST(Dtype, DispatchToAnUnsupportedTypeNamesTheOp) {
  try {
    with_dtype<float, double>("rms_norm", Dtype::i32,
                              []<class T>() { FAIL() << "the function was called for an unsupported type"; });
    FAIL() << "no error was thrown";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[rms_norm] does not support i32; supported: f32, f64");
  }
}

TEST(Dtype, AccumulatorsAreF32ExceptForF64) {
  for (Dtype d : {Dtype::f32, Dtype::bf16}) EXPECT_EQ(accumulator_dtype(d), Dtype::f32);
  EXPECT_EQ(accumulator_dtype(Dtype::f64), Dtype::f64);
}

}  // namespace
}  // namespace hexad::base
