#include "layers/dense/rotary_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"

namespace hexad::tests {

using namespace base;
namespace {

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

RotaryTable table(const YarnConfig& yarn, Dtype dtype = Dtype::f64) {
  static device::DeviceContext context(on_test_device());
  return RotaryTable(positions, head_size, theta, yarn, dtype, context);
}

TEST(RotaryTable, HoldsCosineAndSineOfPositionTimesFrequency) {
  const RotaryTable t = table({});
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

TEST(RotaryTable, YarnOfFactorOneIsOff) {
  YarnConfig yarn;
  yarn.factor = 1, yarn.original_context = 8;
  expect_bitwise(table({}).cosine, table(yarn).cosine, Zeros::expected);
  expect_bitwise(table({}).sine, table(yarn).sine, Zeros::expected);
}

// Peng et al. 2023: fast dimensions keep their frequency, slow dimensions are interpolated, and a ramp lies between
// them. The table is multiplied by 0.1 ln(factor) + 1.
TEST(RotaryTable, YarnInterpolatesOnlySlowDimensions) {
  YarnConfig yarn;
  yarn.factor = 4, yarn.original_context = 4096, yarn.beta_fast = 32, yarn.beta_slow = 1;
  const RotaryTable t = table(yarn), plain = table({});
  // Turns over 4096 positions fall from 652 (i = 0) by a factor of 3.16 per dimension. 32 turns are reached between i =
  // 2 and 3, one turn between 5 and 6. Therefore, the ramp runs from 2 to 6.
  const double ramp[] = {0, 0, 0, 0.25, 0.5, 0.75, 1, 1};
  for (int64_t i = 0; i < half; ++i) {
    const double f = entry(plain, i).frequency;
    EXPECT_NEAR(entry(t, i).frequency, f * (1 - ramp[i]) + f / 4 * ramp[i], 1e-14) << "dimension " << i;
    EXPECT_NEAR(entry(t, i).magnitude, 0.1 * std::log(4) + 1, 1e-14);
  }
}

TEST(RotaryTable, F32IsTheRoundingOfF64) {
  const auto exact = table({}).cosine.to_vector<double>();
  const auto rounded = table({}, Dtype::f32).cosine.to_vector<float>();
  EXPECT_EQ(rounded, std::vector<float>(exact.begin(), exact.end()));
}

TEST(RotaryTable, RefusesAnOddHeadSize) {
  device::DeviceContext context(on_test_device());
  EXPECT_THROW(RotaryTable(4, 7, theta, {}, Dtype::f64, context), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
