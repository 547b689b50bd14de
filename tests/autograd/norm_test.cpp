#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
namespace {

using Inputs = const std::vector<Value>&;
constexpr double eps = 1e-5;

TEST(RmsNorm, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& gain = lab.parameter({7});
  gradcheck(lab, {lab.randn({3, 7})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, eps); });
}

TEST(RmsNorm, GradientsOverHeadsMatchFiniteDifferences) {
  Lab lab;
  Parameter& gain = lab.parameter({4});
  gradcheck(lab, {lab.randn({3, 2, 4})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, eps); });
}

TEST(RmsNorm, GradientsOfManyElementsMatchAlongRandomDirections) {
  Lab lab;
  Parameter& gain = lab.parameter({65});
  gradcheck(lab, {lab.randn({9, 65})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, eps); });
}

TEST(UnitRmsNorm, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 2, 4})}, [](Tape& t, Inputs x) { return unit_rms_norm(t, x[0], 0.1); });
}

TEST(UnitRmsNorm, DividesEachRowByItsRootMeanSquare) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Tensor x = lab.values<double>({3, 4, 0, -5}, {2, 2});
  // Both rows have the mean square 12.5. Their elements are divided by sqrt(12.5 + 3.5) = 4, because eps is 3.5.
  EXPECT_EQ(values_of(unit_rms_norm(tape, {x}, 3.5).data), (std::vector<double>{0.75, 1, 0, -1.25}));
}

// A gradient that ignores eps fails the test, because this eps is large.
TEST(RmsNorm, GradientsWithALargeEpsilonMatchFiniteDifferences) {
  Lab lab;
  Parameter& gain = lab.parameter({5});
  gradcheck(lab, {lab.randn({3, 5})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, 0.5); });
}

class AddRmsNorm : public testing::Test {
 protected:
  // Checks the gradients of add_rms_norm() on tensors of `shape`. `used` selects the outputs that are checked.
  template <class Used>
  void check(const Shape& shape, const Used& used) {
    Parameter& gain = lab.parameter({shape[1]});
    gradcheck(lab, {lab.randn(shape), lab.randn(shape)},
              [&](Tape& t, Inputs x) { return used(add_rms_norm(t, x[0], x[1], gain, eps)); });
  }
  static std::vector<Value> both(const SumAndNorm& out) { return {out.sum, out.normed}; }

  Lab lab;
  const std::unique_ptr<SavePolicy> policy = keep_policy();
};

TEST_F(AddRmsNorm, GradientsMatchFiniteDifferences) { check({3, 7}, both); }

TEST_F(AddRmsNorm, GradientsOfOneRowMatchFiniteDifferences) { check({1, 5}, both); }

TEST_F(AddRmsNorm, GradientsOfManyElementsMatchAlongRandomDirections) { check({9, 65}, both); }

TEST_F(AddRmsNorm, GradientsOfTheNormAloneMatchFiniteDifferences) {
  check({3, 7}, [](const SumAndNorm& out) { return out.normed; });
}

// The fused op and the two separate ops both round the sum before they normalise it.
TEST_F(AddRmsNorm, EqualsAdditionAndNormBitwise) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16})
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{5, 64}}) {
      SCOPED_TRACE(testing::Message() << dtype << " " << shape);
      Parameter& gain = lab.parameter({shape[1]}, dtype);
      const auto draw = [&] { return lab.randn(shape, dtype); };
      const Tensor data = draw(), more = draw(), dsum = draw(), dnormed = draw(), dsum_before = copy_of(dsum);
      const auto run = [&](bool fused, bool recompute_norms) {
        gain.clear_gradient();
        Tape t(lab.stream(), *policy, Tape::Mode::record, recompute_norms);
        const Value x = t.leaf(data), addend = t.leaf(more);
        SumAndNorm out;
        if (fused) {
          out = add_rms_norm(t, x, addend, gain, eps);
          EXPECT_EQ(t.size(), 1u);
        } else {
          out.sum = add(t, x, addend);
          out.normed = rms_norm(t, out.sum, gain, eps);
        }
        // gelu saves its input, which is the output of the norm.
        const Value squashed = gelu(t, out.normed, kernels::GeluKind::exact);
        const std::vector<Replay::Root> roots{{out.sum, dsum}, {squashed, dnormed}};
        Replay replay(t, roots);
        replay.run();
        return std::vector{copy_of(out.sum.data), copy_of(out.normed.data), replay.take_gradient(x),
                           replay.take_gradient(addend), copy_of(gain.gradient())};
      };
      const auto expected = run(false, false);
      for (const bool recompute_norms : {false, true}) {
        const auto actual = run(true, recompute_norms);
        for (size_t i = 0; i < expected.size(); ++i) expect_bitwise(expected[i], actual[i]);
      }
      expect_bitwise(dsum_before, dsum);
    }
}

TEST_F(AddRmsNorm, PassesOnTheGradientOfTheSumAlone) {
  Parameter& gain = lab.parameter({4});
  const Tensor dsum = lab.randn({3, 4});
  for (const auto weights : {Replay::Weights::at_once, Replay::Weights::delayed}) {
    Tape t(lab.stream(), *policy);
    const Value x = t.leaf(lab.randn({3, 4})), addend = t.leaf(lab.randn({3, 4}));
    const std::vector<Replay::Root> roots{{add_rms_norm(t, x, addend, gain, eps).sum, dsum}};
    std::vector<Parameter*> ready;
    Replay replay(t, roots, weights, [&](Parameter& p) { ready.push_back(&p); });
    replay.run();
    expect_bitwise(dsum, replay.take_gradient(x));
    expect_bitwise(dsum, replay.take_gradient(addend));
    EXPECT_EQ(ready, (std::vector<Parameter*>{&gain}));
    EXPECT_FALSE(gain.has_gradient());
  }
}

TEST(LayerNorm, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter &gain = lab.parameter({7}), &bias = lab.parameter({7});
  gradcheck(lab, {lab.randn({3, 7})}, [&](Tape& t, Inputs x) { return layer_norm(t, x[0], gain, &bias, eps); });
}

TEST(LayerNorm, GradientsWithoutABiasMatchFiniteDifferences) {
  Lab lab;
  Parameter& gain = lab.parameter({7});
  gradcheck(lab, {lab.randn({3, 7})}, [&](Tape& t, Inputs x) { return layer_norm(t, x[0], gain, nullptr, 0.5); });
}

TEST(LayerNorm, GradientsOfManyElementsMatchAlongRandomDirections) {
  Lab lab;
  Parameter &gain = lab.parameter({65}), &bias = lab.parameter({65});
  gradcheck(lab, {lab.randn({9, 65})}, [&](Tape& t, Inputs x) { return layer_norm(t, x[0], gain, &bias, eps); });
}

// Returns the message of the std::logic_error that `call` throws.
template <class Call>
std::string message(const Call& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Norms, ErrorsNameTheParameterAndBothShapes) {
  Lab lab;
  Parameter& gain = lab.parameter({5});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({3, 7}));
  EXPECT_EQ(message([&] { rms_norm(tape, x, gain, eps); }),
            "[rms_norm] x is [3, 7] but p0 is [5]; expected [..., D] and [D] with D > 0");
  EXPECT_EQ(message([&] { layer_norm(tape, x, gain, nullptr, eps); }),
            "[layer_norm] x is [3, 7] but p0 is [5]; expected [..., D] and [D] with D > 0");
  EXPECT_EQ(message([&] { add_rms_norm(tape, x, x, gain, eps); }),
            "[add_rms_norm] x is [3, 7] but p0 is [5]; expected [..., D] and [D] with D > 0");
  EXPECT_EQ(message([&] {
              add_rms_norm(tape, x, tape.leaf(lab.randn({3, 5})), gain, eps);
            }),
            "[add_rms_norm] x is [3, 7] f64 but addend is [3, 5] f64; expected the same shape and dtype");
}

TEST(Norms, RefuseRowsWithoutElements) {
  Lab lab;
  Parameter& gain = lab.parameter({0});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({3, 0}));
  const std::string rest = " x is [3, 0] but p0 is [0]; expected [..., D] and [D] with D > 0";
  EXPECT_EQ(message([&] { rms_norm(tape, x, gain, eps); }), base::cat("[rms_norm]", rest));
  EXPECT_EQ(message([&] { layer_norm(tape, x, gain, nullptr, eps); }), base::cat("[layer_norm]", rest));
  EXPECT_EQ(message([&] { add_rms_norm(tape, x, x, gain, eps); }), base::cat("[add_rms_norm]", rest));
  EXPECT_EQ(message([&] { unit_rms_norm(tape, x, eps); }), "[unit_rms_norm] x is [3, 0]; expected [..., D] with D > 0");
}

}  // namespace
}  // namespace hexad::tests
