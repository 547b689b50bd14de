#include "layers/dense/rotary_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/support/compare.h"

namespace hexad::tests {

using namespace base;
namespace {

using layers::RotaryFrequencies;
using layers::RotaryScaling;
using layers::RotaryScalingConfig;
using layers::RotaryTable;
using layers::YarnConfig;
using namespace tensor;

constexpr int64_t positions = 64, head_size = 16, half = head_size / 2;
constexpr double theta = 10000;

double at(const Tensor& t, int64_t i) { return values_of(t)[i]; }

// Angle at position 1, and factor of the table.
struct Entry {
  double frequency, magnitude;
};
Entry entry(const RotaryTable& table, int64_t i) {
  const double c = at(table.cosine, half + i), s = at(table.sine, half + i);
  return {std::atan2(s, c), std::hypot(s, c)};
}

RotaryTable table(const RotaryFrequencies& frequencies, Dtype dtype = Dtype::f64) {
  static device::DeviceContext context(on_test_device());
  return RotaryTable(positions, frequencies, dtype, context);
}
RotaryTable table(const YarnConfig& yarn, Dtype dtype = Dtype::f64) {
  return table(RotaryFrequencies{.size = head_size, .theta = theta, .yarn = yarn}, dtype);
}
RotaryTable table(const RotaryScalingConfig& scaling) {
  return table(RotaryFrequencies{.size = head_size, .theta = theta, .scaling = scaling});
}
RotaryTable plain_table(Dtype dtype = Dtype::f64) { return table(YarnConfig{}, dtype); }

TEST(RotaryTable, HoldsCosineAndSineOfPositionTimesFrequency) {
  const RotaryTable t = plain_table();
  EXPECT_EQ(t.cosine.shape(), (Shape{positions, half}));
  const auto cosines = values_of(t.cosine), sines = values_of(t.sine);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(theta, -static_cast<double>(i) / half);
      const size_t e = p * half + i;
      EXPECT_NEAR(cosines[e], std::cos(angle), 1e-13);
      EXPECT_NEAR(sines[e], std::sin(angle), 1e-13);
    }
}

TEST(RotaryTable, LongRopeDividesEachFrequencyByTheFactorOfItsContext) {
  RotaryScalingConfig scaling{.kind = RotaryScaling::longrope};
  for (int64_t i = 0; i < half; ++i) {
    scaling.short_factors.push_back(1 + 0.1 * static_cast<double>(i));
    scaling.long_factors.push_back(2 + static_cast<double>(i));
  }
  scaling.short_magnitude = 1.25, scaling.long_magnitude = 1.5;
  for (const auto& [original, factors, magnitude] :
       {std::tuple{positions, &scaling.short_factors, 1.25}, {positions - 1, &scaling.long_factors, 1.5}}) {
    scaling.original_context = original;
    const RotaryTable t = table(scaling);
    for (int64_t i = 0; i < half; ++i) {
      const double plain = std::pow(theta, -static_cast<double>(i) / half);
      EXPECT_NEAR(entry(t, i).frequency, plain / (*factors)[i], 1e-13) << "pair " << i;
      EXPECT_NEAR(entry(t, i).magnitude, magnitude, 1e-13) << "pair " << i;
    }
  }
}

TEST(RotaryTable, TemperatureMultipliesByTheFactorOfThePosition) {
  static device::DeviceContext context(on_test_device());
  const RotaryTable t(8, 4, layers::TemperatureConfig{.scale = 0.5, .floor = 3}, Dtype::f64, context);
  for (const double s : values_of(t.sine)) EXPECT_EQ(s, 0);
  const std::vector<double> factors = values_of(t.cosine);
  ASSERT_EQ(factors.size(), 16u);
  for (size_t p = 0; p < 8; ++p)
    for (size_t i = 0; i < 2; ++i)
      EXPECT_DOUBLE_EQ(factors[2 * p + i], 1 + 0.5 * std::log(1.0 + static_cast<double>((p + 1) / 3)))
          << "position " << p;
}

// Llama 4 Scout has equal bounds, low_freq_factor and high_freq_factor, so no frequency lies between them.
TEST(RotaryTable, Llama3WithEqualBoundsKeepsOrDividesEachFrequency) {
  RotaryScalingConfig scaling{.kind = RotaryScaling::llama3, .factor = 16};
  scaling.low_freq_factor = scaling.high_freq_factor = 1;
  scaling.original_context = 64;
  const RotaryTable t = table(scaling);
  for (int64_t i = 0; i < half; ++i) {
    const double plain = std::pow(theta, -static_cast<double>(i) / half);
    const bool fast = 64 * plain / (2 * std::numbers::pi) >= 1;
    EXPECT_NEAR(entry(t, i).frequency, fast ? plain : plain / 16, 1e-13) << "pair " << i;
  }
}

TEST(RotaryTable, YarnOfFactorOneHasNoEffect) {
  YarnConfig yarn;
  yarn.factor = 1, yarn.original_context = 8;
  expect_bitwise(plain_table().cosine, table(yarn).cosine, Zeros::expected);
  expect_bitwise(plain_table().sine, table(yarn).sine, Zeros::expected);
}

// Peng et al. 2023: fast dimensions keep their frequency, slow dimensions are interpolated, and a ramp lies between
// them. The table is multiplied by 0.1 * ln(factor) + 1.
TEST(RotaryTable, YarnInterpolatesOnlySlowDimensions) {
  YarnConfig yarn;
  yarn.factor = 4, yarn.original_context = 4096, yarn.beta_fast = 32, yarn.beta_slow = 1;
  const RotaryTable t = table(yarn), plain = plain_table();
  // Over 4096 positions, dimension 0 makes 652 turns. Each further dimension makes 1 / 3.16 times the turns of the
  // previous dimension. The number of turns falls to 32 between dimensions 2 and 3, and to 1 between dimensions 5 and
  // 6. Therefore, the ramp runs from 2 to 6.
  const double ramp[] = {0, 0, 0, 0.25, 0.5, 0.75, 1, 1};
  for (int64_t i = 0; i < half; ++i) {
    const double f = entry(plain, i).frequency;
    EXPECT_NEAR(entry(t, i).frequency, f * (1 - ramp[i]) + f / 4 * ramp[i], 1e-14) << "dimension " << i;
    EXPECT_NEAR(entry(t, i).magnitude, 0.1 * std::log(4) + 1, 1e-14);
  }
}

TEST(RotaryTable, YarnWithoutTruncationRampsBetweenExactDimensions) {
  YarnConfig yarn;
  yarn.factor = 4, yarn.original_context = 4096, yarn.beta_fast = 32, yarn.beta_slow = 1, yarn.truncate = false;
  const RotaryTable t = table(yarn), plain = plain_table();
  const auto dimension_of = [](double turns) {
    return static_cast<double>(head_size) * std::log(4096 / (turns * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  };
  const double low = dimension_of(32), high = dimension_of(1);
  for (int64_t i = 0; i < half; ++i) {
    const double f = entry(plain, i).frequency;
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(entry(t, i).frequency, f * (1 - ramp) + f / 4 * ramp, 1e-14) << "dimension " << i;
  }
}

TEST(RotaryTable, F32IsTheRoundingOfF64) {
  const auto exact = plain_table().cosine.to_vector<double>();
  const auto rounded = plain_table(Dtype::f32).cosine.to_vector<float>();
  EXPECT_EQ(rounded, std::vector<float>(exact.begin(), exact.end()));
}

TEST(RotaryTable, PartOfHeadHasFrequenciesOfSmallerHead) {
  layers::ModelConfig c;
  c.head_size = head_size, c.rotary_share = 0.5;
  const RotaryTable part = table(RotaryFrequencies::of(c));
  EXPECT_EQ(part.cosine.shape(), (Shape{positions, head_size / 4}));
  expect_bitwise(table(RotaryFrequencies{.size = head_size / 2, .theta = c.rotary_theta}).sine, part.sine,
                 Zeros::expected);
}

TEST(RotaryTable, LinearScalingDividesAllFrequencies) {
  const RotaryTable t = table({.kind = RotaryScaling::linear, .factor = 4}), plain = plain_table();
  for (int64_t i = 0; i < half; ++i) {
    EXPECT_NEAR(entry(t, i).frequency, entry(plain, i).frequency / 4, 1e-14) << "pair " << i;
    EXPECT_NEAR(entry(t, i).magnitude, 1, 1e-14);
  }
}

TEST(RotaryTable, NtkScalingRaisesTheBaseSoThatTheLowestFrequencyIsDivided) {
  const RotaryTable t = table({.kind = RotaryScaling::ntk, .factor = 4}), plain = plain_table();
  const double base = theta * std::pow(4, static_cast<double>(head_size) / (head_size - 2));
  for (int64_t i = 0; i < half; ++i)
    EXPECT_NEAR(entry(t, i).frequency, std::pow(base, -static_cast<double>(i) / half), 1e-14) << "pair " << i;
  EXPECT_NEAR(entry(t, half - 1).frequency, entry(plain, half - 1).frequency / 4, 1e-14);
}

// Llama 3.1: over 4096 positions, the pairs make 652, 206, 65, 21, 6.5, 2.1, 0.65 and 0.21 turns.
TEST(RotaryTable, Llama3ScalingKeepsFastPairsAndDividesSlowOnes) {
  const RotaryTable plain = plain_table();
  const RotaryTable t = table({.kind = RotaryScaling::llama3,
                               .factor = 8,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4,
                               .original_context = 4096});
  for (int64_t i = 0; i < half; ++i) {
    const double f = entry(plain, i).frequency, turns = 4096 * f / (2 * std::acos(-1.0));
    const double kept = i <= 4 ? 1 : i >= 6 ? 0 : (turns - 1) / 3;
    EXPECT_NEAR(entry(t, i).frequency, kept * f + (1 - kept) * f / 8, 1e-13) << "pair " << i;
  }
}

TEST(RotaryTable, RefusesOddSizeAndZero) {
  for (const int64_t size : {7, 0})
    EXPECT_THROW(table(RotaryFrequencies{.size = size, .theta = theta}), std::logic_error) << "size " << size;
}

}  // namespace
}  // namespace hexad::tests
