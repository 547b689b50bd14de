// Activations and elementwise ops.
#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {
namespace {

using Inputs = const std::vector<Value>&;

TEST(SwiGlu, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8}), lab.randn({3, 8})}, [](Tape& t, Inputs x) { return swiglu(t, x[0], x[1]); });
}

TEST(SwiGlu, OneValueAsGateAndUpAddsBothGradients) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8})}, [](Tape& t, Inputs x) { return swiglu(t, x[0], x[0]); });
}

TEST(SwiGlu, GradientsOfGateAndUpSideBySideMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 10})}, [](Tape& t, Inputs x) { return swiglu(t, x[0]); });
}

TEST(SwiGlu, OfGateAndUpSideBySideIsThatOfTheTwo) {
  Lab lab;
  const Tensor both = lab.randn({3, 10});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor gate = both.slice(1, 0, 5), up = both.slice(1, 5, 10);
  expect_bitwise(swiglu(tape, {gate}, {up}).data, swiglu(tape, tape.leaf(both)).data);
}

TEST(Gelu, ExactGradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8})}, [](Tape& t, Inputs x) { return gelu(t, x[0], GeluKind::exact); });
}

TEST(Gelu, TanhGradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 8})}, [](Tape& t, Inputs x) { return gelu(t, x[0], GeluKind::tanh); });
}

TEST(Add, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 5}), lab.randn({3, 5})}, [](Tape& t, Inputs x) { return add(t, x[0], x[1]); });
}

TEST(Add, OfAValueToItselfDoublesItsGradient) {
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
    return scale(t, reshape(t, swiglu(t, x[0], x[0]), {2, -1}), 2.0);
  });
}

TEST(Cast, OfTheSameDtypeIsTheSameValue) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({3}));
  EXPECT_EQ(cast(tape, x, Dtype::f64).id, x.id);
  EXPECT_EQ(tape.size(), 0u);
}

TEST(Cast, GradientReturnsInTheDtypeOfTheInput) {
  Lab lab;
  const auto policy = keep_policy();
  for (Dtype from : {Dtype::f32, Dtype::bf16, Dtype::f64})
    for (Dtype to : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
      if (from == to) continue;
      SCOPED_TRACE(cat(from, " to ", to));
      Tape tape(lab.stream(), *policy);
      // Small integers are exact in every dtype.
      const Value x = tape.leaf(lab.integers({3, 5}, 1, 9, from)), y = cast(tape, x, to);
      EXPECT_EQ(y.data.dtype(), to);
      EXPECT_EQ(values_of(y.data), values_of(x.data));
      const Tensor given = lab.integers({3, 5}, 1, 9, to);
      Replay replay(tape, std::vector<Replay::Root>{{y, given}});
      replay.run();
      const Tensor got = replay.take_gradient(x);
      EXPECT_EQ(got.dtype(), from);
      EXPECT_EQ(values_of(got), values_of(given));
    }
}

TEST(Add, ErrorNamesShapesAndDtypes) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    add(tape, tape.leaf(lab.randn({3})), tape.leaf(lab.randn({3}, Dtype::f32)));
    FAIL() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[add] [3] f64 and [3] f32");
  }
}

}  // namespace
}  // namespace hexad::tests
