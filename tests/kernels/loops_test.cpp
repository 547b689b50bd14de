// The elementary functions behind the loops, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "framework/kernels/cpu/simd/activation_loops.h"

namespace hexad::tests {
namespace {

using namespace kernels::cpu;

// Distance in units of the last place of `want`.
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

// Dense where functions bend, with the edges of overflow and underflow.
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

// Elementwise loops have the same bits at every place of a vector, in the rest of a loop, and on every instruction set.
TEST(Loops, AnElementDoesNotKnowItsPlace) {
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

TEST(Isa, HasAName) { EXPECT_TRUE(name_of(machine_isa()) == "x86-64-v3" || name_of(machine_isa()) == "x86-64-v4"); }

}  // namespace
}  // namespace hexad::tests
