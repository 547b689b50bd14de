// Properties of the tape and its replay that hold for all ops.
#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/autograd/tape_fixture.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

TEST_F(TapeTest, ValueUsedSeveralTimesGetsTheSumOfItsGradients) {
  gradcheck(lab, {lab.randn({3, 4})}, [](Tape& t, Inputs x) {
    const Value twice = scale(t, x[0], 2);
    return add(t, add(t, twice, x[0]), gelu(t, twice, GeluKind::exact));
  });
}

// `add` passes the same dout to both of its inputs. An accumulation into one gradient must not change the other.
TEST_F(TapeTest, GradientSharedByTwoValuesIsNotChangedInPlace) {
  const Value a = tape.leaf(lab.randn({5})), b = tape.leaf(lab.randn({5}));
  const Value more = scale(tape, a, 3), sum = add(tape, a, b);
  const Tensor given = lab.integers({5}, 1, 9), before = copy_of(given);
  Replay replay(tape, Roots{{sum, given}, {more, given}});
  replay.run();
  const Tensor da = replay.take_gradient(a), db = replay.take_gradient(b);
  expect_bitwise(before, given);
  expect_bitwise(before, db);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(values_of(da)[i], 4 * values_of(before)[i]);
}

TEST_F(TapeTest, GradientsOfTwoRootsOfOneValueAddUp) {
  const Value x = tape.leaf(lab.randn({4})), y = scale(tape, x, 2);
  const Tensor one = lab.integers({4}, 1, 9), two = lab.integers({4}, 1, 9);
  Replay replay(tape, Roots{{y, one}, {y, two}});
  replay.run();
  const Tensor dx = replay.take_gradient(x);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values_of(dx)[i], 2 * (values_of(one)[i] + values_of(two)[i]));
}

TEST_F(TapeTest, OpWithoutAPullbackThrowsWhenReached) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("rounding", copy_of(x.data), {x}, {}, {});
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] a gradient reaches the op rounding, which has no pullback; expected an op with a pullback");
}

TEST_F(TapeTest, OpWithoutAPullbackMayBeOffThePath) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = scale(tape, x, 2);
  tape.record("rounding", copy_of(x.data), {x}, {}, {});
  EXPECT_NO_THROW(backward(tape, y, lab.randn({4})));
}

TEST_F(TapeTest, BackwardThrowsWhenTheRootHasNoTrainableInput) {
  const Value constant{lab.randn({4}), -1};
  const Value y = scale(tape, constant, 2);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] the root of backward depends on nothing that needs a gradient; expected a root that depends on a "
            "leaf or a parameter");
}

TEST_F(TapeTest, BackwardThrowsWhenTheRootGradientHasAnotherShapeOrDtype) {
  const Value y = scale(tape, tape.leaf(lab.randn({4})), 2);
  EXPECT_EQ(message_of([&] {
              backward(tape, y, lab.randn({2, 2}));
            }),
            "[tape] the root is [4] f64 but its gradient is [2, 2] f64; expected the same shape and dtype");
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4}, Dtype::f32)); }),
            "[tape] the root is [4] f64 but its gradient is [4] f32; expected the same shape and dtype");
}

TEST_F(TapeTest, ContributionsOfDifferentShapesThrow) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, {}, [&](Backward& b, const Tensor& dout, const Saved&) {
    b.accumulate(0, dout);
    b.accumulate(0, dout.reshape({2, 2}));
  });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] one value gets gradients [4] f64 and [2, 2] f64; expected the same shape and dtype");
}

TEST_F(TapeTest, BackwardThrowsOnAGradientForAMissingInput) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, {},
                              [&](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(1, dout); });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] a pullback gives a gradient to input 1; expected an index below 1, the op's number of inputs");
}

TEST_F(TapeTest, ReadingAnotherNumberOfSavedTensorsThrows) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, save(x.data),
                              [&](Backward&, const Tensor&, const Saved& s) { s.get<2>(); });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] the number of saved tensors that an op reads is 2; expected 1, the number that the op saved");
}

TEST_F(TapeTest, TakingTheGradientOfAConstantThrows) {
  const Value y = scale(tape, tape.leaf(lab.randn({4})), 2);
  Replay replay(tape, Roots{{y, lab.randn({4})}});
  EXPECT_EQ(
      message_of([&] {
        replay.take_gradient({lab.randn({4}), -1});
      }),
      "[tape] take_gradient() was called for a value that needs no gradient; expected a leaf that needs a gradient");
}

TEST_F(TapeTest, ConstantInputDoesNotStopOtherGradients) {
  Parameter& w = lab.parameter({3, 3});
  const Value constant{lab.randn({2, 3}), -1}, wanted = tape.leaf(lab.randn({2, 3}));
  const Value y = add(tape, linear(tape, constant, w), wanted);
  Replay replay(tape, Roots{{y, lab.randn({2, 3})}});
  replay.run();
  EXPECT_TRUE(w.has_gradient());
  EXPECT_TRUE(replay.take_gradient(wanted).defined());
}

TEST_F(TapeTest, UnusedLeafHasNoGradient) {
  const Value x = tape.leaf(lab.randn({4})), unused = tape.leaf(lab.randn({4}));
  const Value y = scale(tape, x, 2);
  Replay replay(tape, Roots{{y, lab.randn({4})}});
  replay.run();
  EXPECT_FALSE(replay.take_gradient(unused).defined());
}

// A reduction bucket waits for every parameter, even one that received no gradient.
TEST_F(TapeTest, ParametersOfUnusedOutputsContributeZeroAndAreStillReady) {
  Parameter &used = lab.parameter({3, 3}), &unused = lab.parameter({3, 3});
  for (auto weights : {Replay::Weights::at_once, Replay::Weights::delayed}) {
    Tape t(lab.stream(), *policy);
    const Value x = t.leaf(lab.randn({2, 3}));
    const Value y = linear(t, x, used);
    linear(t, x, unused);
    std::vector<Parameter*> ready;
    Replay(t, Roots{{y, lab.randn({2, 3})}}, weights, [&](Parameter& p) { ready.push_back(&p); }).run();
    EXPECT_EQ(ready, (std::vector<Parameter*>{&unused, &used}));
  }
  EXPECT_FALSE(unused.has_gradient());
  expect_zeros(unused.gradient_to_add(lab.stream()));
}

TEST_F(TapeTest, TiedParameterIsReadyOnceAfterItsLastContribution) {
  Parameter &table = lab.parameter({6, 3}), &w = lab.parameter({3, 3});
  const Tensor ids = lab.values<int32_t>({4, 0, 4}), targets = lab.values<int32_t>({1, 2, 5});
  for (auto weights : {Replay::Weights::at_once, Replay::Weights::delayed}) {
    table.clear_gradient();
    Tape t(lab.stream(), *policy);
    const Value x = linear(t, embedding(t, table, ids), w);
    const Value loss = linear_cross_entropy(t, x, table, targets, {.gradient_scale = 0.5});
    std::vector<Tensor> at_ready;
    int ready = 0;
    Replay replay(t, Roots{{loss, lab.values<double>({0.5})}}, weights, [&](Parameter& p) {
      if (&p == &table) ++ready, at_ready.push_back(copy_of(p.gradient()));
    });
    replay.run();
    ASSERT_EQ(ready, 1);
    expect_bitwise(table.gradient(), at_ready[0]);
  }
}

TEST_F(TapeTest, GradientsOfATiedEmbeddingMatchFiniteDifferences) {
  Parameter &table = lab.parameter({6, 3}), &w = lab.parameter({3, 3});
  const Tensor ids = lab.values<int32_t>({4, 0, 4}), targets = lab.values<int32_t>({1, 2, 5});
  gradcheck(lab, {},
            [&](Tape& t, Inputs) {
              const Value x = linear(t, embedding(t, table, ids), w);
              return linear_cross_entropy(t, x, table, targets, {.gradient_scale = 0.5, .block_rows = 2});
            },
            {.root_gradient = 0.5});
}

TEST_F(TapeTest, NetworkMatchesFiniteDifferences) {
  const Network n(lab);
  gradcheck(lab, {lab.randn({3, 4})}, [&](Tape& t, Inputs x) { return n(t, n(t, x[0])); });
}

TEST_F(TapeTest, ForgetModeRecordsNothingAndFreesItsTensors) {
  const Network n(lab);
  const Tensor x = lab.randn({3, 4});
  Tape forget(lab.stream(), *policy, Tape::Mode::forget);
  const int64_t before = lab.context.allocator()->stats().total;
  const Value leaf = forget.leaf(x);
  EXPECT_FALSE(leaf.wants_gradient());
  {
    const Value y = n(forget, n(forget, leaf));
    EXPECT_FALSE(y.wants_gradient());
    EXPECT_EQ(lab.context.allocator()->stats().total, before + y.data.bytes());
  }
  EXPECT_EQ(forget.size(), 0u);
  EXPECT_EQ(lab.used(Category::activation), 0);
  EXPECT_EQ(lab.context.allocator()->stats().total, before);
  EXPECT_EQ(forget.used_parameters().size(), 8u);
}

TEST_F(TapeTest, ForgetModeComputesIdenticalBits) {
  const Network n(lab);
  const Tensor x = lab.randn({3, 4});
  Tape forget(lab.stream(), *policy, Tape::Mode::forget);
  expect_bitwise(n(tape, tape.leaf(x)).data, n(forget, forget.leaf(x)).data);
}

TEST_F(TapeTest, ExceptionInAPullbackReachesTheCaller) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("broken", copy_of(x.data), {x}, {},
                              [](Backward&, const Tensor&, const Saved&) { throw std::runtime_error("device lost"); });
  EXPECT_THROW(backward(tape, y, lab.randn({4})), std::runtime_error);
}

}  // namespace
}  // namespace hexad::tests
