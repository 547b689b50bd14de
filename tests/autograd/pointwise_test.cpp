// Activation functions and elementwise ops.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;

TEST(SwiGlu, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 10})}, [](Tape& t, Inputs x) { return swiglu(t, x[0]); });
}

TEST(SwiGlu, FirstHalfOfARowIsTheGate) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value gate_up = tape.leaf(lab.values<double>({0, 100, 7, 3}, {1, 4}));
  EXPECT_EQ(values_of(swiglu(tape, gate_up).data), (std::vector<double>{0, 300}));
}

TEST(ClampedSwiGlu, GradientsMatchFiniteDifferences) {
  for (const double limit : {1.2, 7.0}) {
    Lab lab;
    gradcheck(lab, {lab.randn({3, 10})}, [&](Tape& t, Inputs x) { return swiglu(t, x[0], limit); });
  }
}

TEST(ClampedSwiGlu, ClampsTheGateFromAboveAndUpOnBothSides) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto of = [&](double gate, double up) {
    return values_of(swiglu(tape, tape.leaf(lab.values<double>({gate, up}, {1, 2})), 7.0).data)[0];
  };
  EXPECT_EQ(of(100, 2), of(7, 2));
  EXPECT_EQ(of(1, 100), of(1, 7));
  EXPECT_EQ(of(1, -100), of(1, -7));
  EXPECT_NE(of(-8, 2), of(-7, 2));
  EXPECT_NEAR(of(2, 3), 2 / (1 + std::exp(-1.702 * 2)) * 4, 1e-12);
  EXPECT_EQ(of(1, -1), 0.0);
}

TEST(Gelu, ExactGradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8})}, [](Tape& t, Inputs x) { return gelu(t, x[0], GeluKind::exact); });
}

TEST(Gelu, TanhGradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8})}, [](Tape& t, Inputs x) { return gelu(t, x[0], GeluKind::tanh); });
}

TEST(GateRows, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({5, 3}), lab.randn({5, 1})}, [](Tape& t, Inputs x) { return gate_rows(t, x[0], x[1]); });
}

TEST(GateRows, MultipliesARowByTheSigmoidOfItsLogit) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.values<double>({1, 2, 3, 4, 5, 6}, {3, 2}));
  const Value logits = tape.leaf(lab.values<double>({0, 100, -1000}, {3, 1}));
  EXPECT_EQ(values_of(gate_rows(tape, x, logits).data), (std::vector<double>{0.5, 1, 3, 4, 0, 0}));
}

TEST(ScaleRows, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({5, 3}), lab.randn({5, 1})}, [](Tape& t, Inputs x) { return scale_rows(t, x[0], x[1]); });
}

TEST(ScaleRows, MultipliesARowByItsFactor) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.values<double>({1, 2, 3, 4, 5, 6}, {3, 2}));
  const Value factors = tape.leaf(lab.values<double>({0.5, -1, 0}, {3, 1}));
  EXPECT_EQ(values_of(scale_rows(tape, x, factors).data), (std::vector<double>{0.5, 1, -3, -4, 0, 0}));
}

TEST(Add, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 5}), lab.randn({3, 5})}, [](Tape& t, Inputs x) { return add(t, x[0], x[1]); });
}

TEST(Add, DoublesTheGradientOfAValueAddedToItself) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 5})}, [](Tape& t, Inputs x) { return add(t, x[0], x[0]); });
}

TEST(Scale, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 5})}, [](Tape& t, Inputs x) { return scale(t, x[0], -2.5); });
}

TEST(Clamp, GradientsAwayFromTheKinksMatchFiniteDifferences) {
  Lab lab;
  const Tensor x = lab.values<double>({-3, -1.5, -1.01, -0.99, -0.2, 0, 0.3, 0.98, 1.02, 4});
  gradcheck(lab, {x}, [](Tape& t, Inputs v) { return clamp(t, v[0], 1.0); });
}

TEST(Reshape, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 4})}, [](Tape& t, Inputs x) {
    return scale(t, reshape(t, gelu(t, x[0], GeluKind::exact), {2, -1}), 2.0);
  });
}

TEST(Add, ErrorNamesShapesAndDtypes) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    add(tape, tape.leaf(lab.randn({3})), tape.leaf(lab.randn({3}, Dtype::f32)));
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[add] a is [3] f64, b [3] f32; expected the same shape and dtype");
  }
}

}  // namespace
}  // namespace hexad::tests
