// Ops that join, extend and slice heads, and the rotation of a single tensor.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
namespace {

using Inputs = const std::vector<Value>&;

TEST(JoinHeads, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({5, 2}), lab.randn({5, 3, 4})},
            [](Tape& t, Inputs x) { return join_heads(t, x[0], x[1]); });
}

TEST(JoinHeads, EveryHeadBeginsWithTheSharedPart) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value shared = tape.leaf(lab.values<double>({1, 2}, {2, 1}));
  const Value own = tape.leaf(lab.values<double>({3, 4, 5, 6}, {2, 2, 1}));
  EXPECT_EQ(values_of(join_heads(tape, shared, own).data), (std::vector<double>{1, 3, 1, 4, 2, 5, 2, 6}));
}

TEST(JoinHeads, GradientOfTheSharedPartIsTheSumOverHeads) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value shared = tape.leaf(lab.values<double>({1, 2}, {2, 1}));
  const Value joined = join_heads(tape, shared, {lab.values<double>({3, 4, 5, 6}, {2, 2, 1})});
  const std::vector<Replay::Root> roots{{joined, lab.values<double>({1, 9, 10, 9, 100, 9, 1000, 9}, {2, 2, 2})}};
  Replay replay(tape, roots);
  replay.run();
  EXPECT_EQ(values_of(replay.take_gradient(shared)), (std::vector<double>{11, 1100}));
}

TEST(ResizeHeads, GradientsOfExtendedHeadsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({4, 3, 2})}, [](Tape& t, Inputs x) { return resize_heads(t, x[0], 3); });
}

TEST(ResizeHeads, GradientsOfCutHeadsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({4, 3, 5})}, [](Tape& t, Inputs x) { return resize_heads(t, x[0], 4); });
}

TEST(ResizeHeads, ExtendsByZerosAndKeepsTheFirstElements) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.values<double>({1, 2, 3, 4}, {1, 2, 2}));
  EXPECT_EQ(values_of(resize_heads(tape, x, 3).data), (std::vector<double>{1, 2, 0, 3, 4, 0}));
  EXPECT_EQ(values_of(resize_heads(tape, x, 1).data), (std::vector<double>{1, 3}));
  EXPECT_EQ(resize_heads(tape, x, 2).id, x.id);
}

TEST(Rotary, OneTensorRotatesLikeQueries) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const double angle = 0.3;
  const Tensor cosine = lab.values<double>({1, std::cos(angle)}, {2, 1});
  const Tensor sine = lab.values<double>({0, std::sin(angle)}, {2, 1}), positions = lab.values<int32_t>({1, 0, 1});
  const Value x = tape.leaf(lab.randn({3, 2, 3})), k = tape.leaf(lab.randn({3, 1, 3}));
  EXPECT_EQ(values_of(rotary(tape, x, positions, cosine, sine).data),
            values_of(rotary(tape, x, k, positions, cosine, sine).q.data));
  gradcheck(lab, {lab.randn({3, 2, 3})}, [&](Tape& t, Inputs in) { return rotary(t, in[0], positions, cosine, sine); });
}

}  // namespace
}  // namespace hexad::tests
