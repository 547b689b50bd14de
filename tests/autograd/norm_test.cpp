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

// Uses a large eps, so that its effect on the gradient shows.
TEST(RmsNorm, EpsilonAffectsTheGradient) {
  Lab lab;
  Parameter& gain = lab.parameter({5});
  gradcheck(lab, {lab.randn({3, 5})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, 0.5); });
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

TEST(Norms, ErrorsNameTheParameterAndBothShapes) {
  Lab lab;
  Parameter& gain = lab.parameter({5});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({3, 7}));
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { rms_norm(tape, x, gain, eps); }), "[rms_norm] x is [3, 7] but p0 is [5]");
  EXPECT_EQ(message([&] { layer_norm(tape, x, gain, nullptr, eps); }), "[layer_norm] x is [3, 7] but p0 is [5]");
}

}  // namespace
}  // namespace hexad::tests
