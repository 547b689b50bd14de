// Elementary functions and FP8 codes of the CPU's loops, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "framework/base/fp8.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/cpu/simd/wire_loops.h"

namespace hexad::tests {
namespace {

using namespace kernels::cpu;

// Returns the distance in units of the last place of `want`. Every other value is 1e9 units away if `want` is infinite.
double ulps(float got, double want) {
  if (std::isinf(want) || static_cast<float>(want) == got) return static_cast<float>(want) == got ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 23);
}

std::vector<const ByDtype<ActivationLoops>*> tables() {
  std::vector<const ByDtype<ActivationLoops>*> all{&v3::activation_loops};
  if (machine_isa() == Isa::v4) all.push_back(&v4::activation_loops);
  return all;
}

// Returns evenly spaced arguments from `low` to `high`, and 1, 1/3, 1/9, ... with both signs, down to the last value
// that is not zero.
std::vector<float> arguments(float low, float high) {
  std::vector<float> x;
  for (int i = 0; i <= 400000; ++i) x.push_back(low + (high - low) * static_cast<float>(i) / 400000);
  for (float tiny = 1; tiny > 0; tiny /= 3) x.insert(x.end(), {tiny, -tiny});
  return x;
}

TEST(Loops, ExpIsWithinTwoUlps) {
  for (const auto* table : tables()) {
    const auto x = arguments(-110, 95);
    auto y = x;
    table->for_f32.exp(y.data(), static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_LE(ulps(y[i], std::exp(static_cast<double>(x[i]))), 2) << x[i];
  }
}

TEST(Loops, ExpKeepsInfinitiesAndNan) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const auto* table : tables()) {
    std::vector<float> y{-inf, 0, inf, std::numeric_limits<float>::quiet_NaN()};
    table->for_f32.exp(y.data(), 4);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 1);
    EXPECT_EQ(y[2], inf);
    EXPECT_TRUE(std::isnan(y[3]));
  }
}

TEST(Loops, SigmoidIsWithinFourUlps) {
  for (const auto* table : tables()) {
    const auto x = arguments(-86, 100);
    auto y = x;
    table->for_f32.sigmoid(y.data(), static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(y[i], 1 / (1 + std::exp(-static_cast<double>(x[i])))), 4) << x[i];
  }
}

// A slope computed from one minus the sigmoid would have few correct digits where the sigmoid is near one.
TEST(Loops, DerivativeOfTanhGeluKeepsItsPrecision) {
  constexpr double c = 0.79788456080286535588, cubic = 0.044715;
  for (const auto* table : tables()) {
    const auto x = arguments(0, 8);
    const std::vector<float> one(x.size(), 1.0f);
    std::vector<float> slope(x.size());
    table->for_f32.gelu_tanh_backward(slope.data(), one.data(), x.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], t = std::tanh(c * (v + cubic * v * v * v));
      const double expected = (1 + t) / 2 + v / 2 * (1 - t * t) * c * (1 + 3 * cubic * v * v);
      ASSERT_LE(ulps(slope[i], expected), 4) << x[i];
    }
  }
}

// gelu_exact_backward gives the same bits for an element alone and inside a long array, on every instruction set.
TEST(Loops, ElementDoesNotDependOnItsPosition) {
  const auto x = arguments(-6, 6);
  const std::vector<float> up(x.size(), 1.25f);
  std::vector<float> whole(x.size()), single(x.size());
  v3::activation_loops.for_f32.gelu_exact_backward(whole.data(), up.data(), x.data(), static_cast<int64_t>(x.size()));
  for (const auto* table : tables()) {
    for (size_t i = 0; i < x.size(); ++i) table->for_f32.gelu_exact_backward(&single[i], &up[i], &x[i], 1);
    EXPECT_EQ(single, whole);
    table->for_f32.gelu_exact_backward(single.data(), up.data(), x.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(single, whole);
  }
}

std::vector<const ByDtype<WireLoops>*> wire_tables() {
  std::vector<const ByDtype<WireLoops>*> all{&v3::wire_loops};
  if (machine_isa() == Isa::v4) all.push_back(&v4::wire_loops);
  return all;
}

// Tests the values of all finite codes below the largest, the boundary above each value, and the neighbours of the
// boundary, with both signs. Also tests a value that rounds to zero, and a value that rounds down to the largest code.
TEST(Loops, EncodeRoundsLikeE4m3) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{1e-38f, 463.9f};
  for (uint8_t code = 0; code < 0x7e; ++code) {
    const auto here = static_cast<float>(base::e4m3::from_bits(code));
    const auto next = static_cast<float>(base::e4m3::from_bits(static_cast<uint8_t>(code + 1)));
    const float middle = (here + next) / 2;
    x.insert(x.end(), {here, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, inf)});
  }
  for (size_t i = 0, n = x.size(); i < n; ++i) x.push_back(-x[i]);
  std::vector<uint8_t> codes(x.size());
  for (const auto* table : wire_tables()) {
    table->for_f32.encode(codes.data(), x.data(), 1, static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(codes[i], base::e4m3(x[i]).bits) << x[i];
  }
}

TEST(Loops, DecodeSupportsEveryCode) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  std::vector<float> y(codes.size());
  for (const auto* table : wire_tables()) {
    table->for_f32.decode(y.data(), codes.data(), 1, static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < y.size(); ++i) {
      const auto want = static_cast<float>(base::e4m3::from_bits(codes[i]));
      EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << i;  // including -0 and NaN
    }
  }
}

TEST(Isa, HasAName) { EXPECT_TRUE(name_of(machine_isa()) == "x86-64-v3" || name_of(machine_isa()) == "x86-64-v4"); }

}  // namespace
}  // namespace hexad::tests
