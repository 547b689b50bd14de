#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using Inputs = const std::vector<Value>&;

TEST(Linear, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& w = lab.parameter({5, 3});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w); });
}

TEST(Linear, GradientsWithABiasMatchFiniteDifferences) {
  Lab lab;
  Parameter &w = lab.parameter({5, 3}), &bias = lab.parameter({5});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); });
}

TEST(Linear, GradientsOfManyElementsMatchAlongRandomDirections) {
  Lab lab;
  Parameter &w = lab.parameter({24, 17}), &bias = lab.parameter({24});
  gradcheck(lab, {lab.randn({13, 17})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); });
}

TEST(Linear, GivesAZeroWeightGradientForNoRows) {
  Lab lab;
  Parameter &w = lab.parameter({5, 3}), &bias = lab.parameter({5});
  gradcheck(lab, {lab.randn({0, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); },
            {.zeros = Zeros::expected});
  expect_zeros(w.gradient());
  expect_zeros(bias.gradient());
}

TEST(Linear, UsedTwiceAddsBothContributions) {
  Lab lab;
  Parameter& w = lab.parameter({3, 3});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, linear(t, x[0], w), w); });
}

// Small integers are exact in bf16. The sums of their products are exact in single precision.
TEST(Linear, KeepsMainGradientsOfBf16WeightsInSinglePrecision) {
  const auto run = [](Dtype dtype) {
    Lab same;  // the same seed gives the same random numbers
    Parameter &w = same.parameter({5, 30}, dtype), &bias = same.parameter({5}, dtype);
    const auto policy = keep_policy();
    Tape tape(same.stream(), *policy);
    const Value y = linear(tape, tape.leaf(same.integers({40, 30}, -8, 9, dtype)), w, &bias);
    backward(tape, y, same.integers({40, 5}, -8, 9, dtype));
    EXPECT_EQ(w.gradient().dtype(), accumulator_dtype(dtype));
    auto values = values_of(w.gradient());
    for (double v : values_of(bias.gradient())) values.push_back(v);
    return values;
  };
  const auto expected = run(Dtype::f64);
  EXPECT_EQ(run(Dtype::bf16), expected);
  EXPECT_EQ(run(Dtype::f32), expected);
}

TEST(Linear, ErrorNamesTheParameterAndBothShapes) {
  Lab lab;
  Parameter& w = lab.parameter({5, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    linear(tape, tape.leaf(lab.randn({4, 2})), w);
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[linear] x is [4, 2] but p0 is [5, 3]; expected [T, D] and [..., N, D] with D > 0");
  }
}

TEST(Linear, RefusesRowsWithoutElements) {
  Lab lab;
  Parameter& w = lab.parameter({5, 0});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    linear(tape, tape.leaf(lab.randn({4, 0})), w);
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[linear] x is [4, 0] but p0 is [5, 0]; expected [T, D] and [..., N, D] with D > 0");
  }
}

}  // namespace
}  // namespace hexad::tests
