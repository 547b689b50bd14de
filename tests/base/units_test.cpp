#include "framework/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hexad::base {
namespace {

TEST(Units, CountsShowThreeDigitsAndAPrefix) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1.00 k");
  EXPECT_EQ(human_count(1.234e6), "1.23 M");
  EXPECT_EQ(human_count(46702792704), "46.7 B");
  EXPECT_EQ(human_count(-12345), "-12.3 k");
  EXPECT_EQ(human_count(12.345), "12.3");
  EXPECT_EQ(human_count(0.00421), "0.00421");
}

TEST(Units, NumbersThatRoundUpKeepThreeDigits) {
  EXPECT_EQ(human_count(999'600), "1.00 M");
  EXPECT_EQ(human_count(9'996), "10.0 k");
  EXPECT_EQ(human_bytes(1024.0 * 1024 - 1), "1.00 MiB");
}

TEST(Units, QuantitiesCarryTheirUnit) {
  EXPECT_EQ(human_quantity(4.56e10, "FLOP/s"), "45.6 GFLOP/s");
  EXPECT_EQ(human_quantity(2.5, "B/s"), "2.50 B/s");
}

TEST(Units, BytesUseBinaryPrefixes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1010 * 1024.0), "1010 KiB");
  EXPECT_EQ(human_bytes(80.0 * (1 << 30)), "80.0 GiB");
}

TEST(Units, DurationsAreReadable) {
  EXPECT_EQ(human_duration(0.0123), "12 ms");
  EXPECT_EQ(human_duration(12.34), "12.3 s");
  EXPECT_EQ(human_duration(59.99), "1 min 00 s");
  EXPECT_EQ(human_duration(192), "3 min 12 s");
  EXPECT_EQ(human_duration(3600 * 2 + 300), "2 h 05 min");
  EXPECT_EQ(human_duration(86400 * 3 + 4 * 3600 + 5), "3 d 4 h");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "unknown");
}

TEST(Units, PreciseDurationsHaveThreeDigits) {
  EXPECT_EQ(precise_duration(0), "0 ms");
  EXPECT_EQ(precise_duration(0.000123456), "0.123 ms");
  EXPECT_EQ(precise_duration(0.00456), "4.56 ms");
  EXPECT_EQ(precise_duration(-0.00456), "-4.56 ms");
  EXPECT_EQ(precise_duration(0.0123), "12.3 ms");
  EXPECT_EQ(precise_duration(0.412), "412 ms");
  EXPECT_EQ(precise_duration(0.9996), "1.00 s");
  EXPECT_EQ(precise_duration(59.94), "59.9 s");
  EXPECT_EQ(precise_duration(59.99), "1 min 00 s");
  EXPECT_EQ(precise_duration(std::numeric_limits<double>::quiet_NaN()), "unknown");
}

TEST(Units, NanAndInfinityAreNamed) {
  EXPECT_EQ(human_count(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(human_bytes(std::numeric_limits<double>::infinity()), "Inf");
  EXPECT_EQ(human_count(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(Units, PercentHasThreeDigitsAndIntegersAreGrouped) {
  EXPECT_EQ(human_percent(0.4321), "43.2%");
  EXPECT_EQ(human_percent(-0.0004), "0.0%");
  EXPECT_EQ(human_percent(-0.0006), "-0.1%");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(123456), "123,456");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(46702792704), "46,702,792,704");
}

TEST(Units, NonFiniteNumbersHaveOneSpelling) {
  for (const double nan : {std::nan(""), -std::nan("")}) {
    EXPECT_EQ(with_decimals(nan, 4), "NaN");
    EXPECT_EQ(with_digits(nan, 3), "NaN");
    EXPECT_EQ(human_loss(nan), "NaN");
    EXPECT_EQ(human_percent(nan), "NaN%");
    EXPECT_EQ(human_count(nan), "NaN");
  }
  EXPECT_EQ(with_digits(-std::numeric_limits<double>::infinity(), 3), "-Inf");
  EXPECT_EQ(with_decimals(1.0 / 3, 2), "0.33");
  EXPECT_EQ(with_decimals(-1e-17, 2), "0.00");
  EXPECT_EQ(with_decimals(-0.4, 0), "0");
  EXPECT_EQ(with_digits(1234.5, 3), "1.23e+03");
}

TEST(Units, LossWithoutTargetsIsInWords) {
  EXPECT_EQ(human_loss(std::nullopt), "no targets");
  EXPECT_EQ(human_loss(0.0), "0.0000");
}

}  // namespace
}  // namespace hexad::base
