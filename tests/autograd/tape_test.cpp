// Properties of the tape and its replay that hold for all ops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;
using Roots = std::vector<Replay::Root>;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

class TapeTest : public testing::Test {
 protected:
  Lab lab;
  std::unique_ptr<SavePolicy> policy = keep_policy();
  Tape tape{lab.stream(), *policy};
};

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
            "[tape] a gradient reaches the op rounding, which has no pullback");
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
            "[tape] the root of backward depends on nothing that needs a gradient");
}

TEST_F(TapeTest, BackwardThrowsWhenTheRootGradientHasAnotherShapeOrDtype) {
  const Value y = scale(tape, tape.leaf(lab.randn({4})), 2);
  EXPECT_EQ(message_of([&] {
              backward(tape, y, lab.randn({2, 2}));
            }),
            "[tape] the root is [4] f64 but its gradient [2, 2] f64; expected the same shape and dtype");
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4}, Dtype::f32)); }),
            "[tape] the root is [4] f64 but its gradient [4] f32; expected the same shape and dtype");
}

TEST_F(TapeTest, ContributionsOfDifferentShapesThrow) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, {}, [&](Backward& b, const Tensor& dout, const Saved&) {
    b.accumulate(0, dout);
    b.accumulate(0, dout.reshape({2, 2}));
  });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] gradients [4] f64 and [2, 2] f64 of one value; expected the same shape and dtype");
}

TEST_F(TapeTest, BackwardThrowsOnAGradientForAMissingInput) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, {},
                              [&](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(1, dout); });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }),
            "[tape] a pullback gives a gradient to input 1, but its op has 1 inputs");
}

TEST_F(TapeTest, ReadingAnotherNumberOfSavedTensorsThrows) {
  const Value x = tape.leaf(lab.randn({4}));
  const Value y = tape.record("wrong", copy_of(x.data), {x}, save(x.data),
                              [&](Backward&, const Tensor&, const Saved& s) { s.get<2>(); });
  EXPECT_EQ(message_of([&] { backward(tape, y, lab.randn({4})); }), "[tape] 1 tensors were saved but 2 are read");
}

TEST_F(TapeTest, TakingTheGradientOfAConstantThrows) {
  const Value y = scale(tape, tape.leaf(lab.randn({4})), 2);
  Replay replay(tape, Roots{{y, lab.randn({4})}});
  EXPECT_EQ(message_of([&] {
              replay.take_gradient({lab.randn({4}), -1});
            }),
            "[tape] take_gradient() was called for a value that needs no gradient");
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
              return linear_cross_entropy(t, x, table, targets, {.gradient_scale = 0.5, .chunk_rows = 2});
            },
            {.root_gradient = 0.5});
}

// Small network whose parameters are the gain of a norm, two weights and a bias.
struct Network {
  explicit Network(Lab& lab)
      : gain(lab.parameter({4})),
        first(lab.parameter({6, 4})),
        bias(lab.parameter({6})),
        second(lab.parameter({4, 3})) {}
  Value operator()(Tape& t, const Value& x) const {
    const Value h = linear(t, rms_norm(t, x, gain, 1e-5), first, &bias);
    return add(t, x, linear(t, swiglu(t, h), second));
  }
  std::vector<Parameter*> all() const { return {&gain, &first, &bias, &second}; }
  Parameter &gain, &first, &bias, &second;
};

std::vector<Tensor> gradients_of(const Network& n) {
  std::vector<Tensor> out;
  for (Parameter* p : n.all()) out.push_back(copy_of(p->gradient()));
  return out;
}

TEST_F(TapeTest, NetworkMatchesFiniteDifferences) {
  const Network n(lab);
  gradcheck(lab, {lab.randn({3, 4})}, [&](Tape& t, Inputs x) { return n(t, n(t, x[0])); });
}

TEST_F(TapeTest, ReplayStepByStepEqualsRun) {
  const Network n(lab);
  const Tensor x = lab.randn({3, 4}), dout = lab.randn({3, 4});
  const auto with = [&](Replay::Weights weights, auto&& go) {
    for (Parameter* p : n.all()) p->clear_gradient();
    Tape t(lab.stream(), *policy);
    const Value leaf = t.leaf(x), y = n(t, leaf);
    Replay replay(t, Roots{{y, dout}}, weights);
    go(replay);
    auto all = gradients_of(n);
    all.push_back(replay.take_gradient(leaf));
    return all;
  };
  const auto whole = with(Replay::Weights::at_once, [](Replay& r) { r.run(); });
  const auto steps = with(Replay::Weights::at_once, [](Replay& r) {
    int count = 0;
    while (r.step()) ++count;
    EXPECT_EQ(count, 5);
    EXPECT_FALSE(r.step());
    EXPECT_FALSE(r.step_weights());
  });
  const auto delayed = with(Replay::Weights::delayed, [](Replay& r) {
    while (r.step()) {
    }
    EXPECT_EQ(r.pending_weights(), 3u);
    while (r.step_weights()) {
    }
    EXPECT_EQ(r.pending_weights(), 0u);
  });
  const auto interleaved = with(Replay::Weights::delayed, [](Replay& r) {
    bool more = true;
    while (more) {
      more = r.step();
      more |= r.step_weights();
    }
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    expect_bitwise(whole[i], steps[i]);
    expect_bitwise(whole[i], delayed[i]);
    expect_bitwise(whole[i], interleaved[i]);
  }
}

TEST_F(TapeTest, BackwardReachesPointsBetweenTheOpsThatTheySeparate) {
  Parameter &w = lab.parameter({3, 3}), &v = lab.parameter({3, 3});
  const auto order_of = [&](Replay::Weights weights) {
    std::vector<std::string> order;
    Tape t(lab.stream(), *policy);
    const Value x = linear(t, t.leaf(lab.randn({2, 3})), w);
    t.at_backward([&](Replay& replay) {
      order.push_back("first point");
      replay.between_weights([&] { order.push_back("between weights"); });
    });
    t.at_backward([&](Replay&) { order.push_back("second point"); });
    const Value y = linear(t, x, v);
    Replay(t, Roots{{y, lab.randn({2, 3})}}, weights, [&](Parameter& p) {
      order.push_back(&p == &w ? "w" : "v");
    }).run();
    return order;
  };
  EXPECT_EQ(order_of(Replay::Weights::at_once),
            (std::vector<std::string>{"v", "second point", "first point", "between weights", "w"}));
  EXPECT_EQ(order_of(Replay::Weights::delayed),
            (std::vector<std::string>{"second point", "first point", "v", "between weights", "w"}));
}

TEST_F(TapeTest, CountsUsesOfWorkThatIsNotRecorded) {
  Parameter &recorded = lab.parameter({3, 3}), &other = lab.parameter({3, 3});
  linear(tape, tape.leaf(lab.randn({2, 3})), recorded);
  Parameter* const used[] = {&other};
  tape.count_uses(used);
  EXPECT_EQ(tape.used_parameters(), (std::vector<Parameter*>{&recorded, &other}));
}

// The pullback of an op replays earlier ops. Each op is replayed once. The gradients are bitwise identical to those of
// a replay in which no pullback replays other ops.
TEST_F(TapeTest, OpMayReplayEarlierOps) {
  Parameter &w = lab.parameter({4, 4}), &v = lab.parameter({4, 4});
  const Tensor data = lab.randn({3, 4}), dout = lab.randn({3, 4});
  for (const auto weights : {Replay::Weights::at_once, Replay::Weights::delayed}) {
    const auto gradients = [&](bool inside) {
      for (Parameter* p : {&w, &v}) p->clear_gradient();
      Tape t(lab.stream(), *policy);
      const Value leaf = t.leaf(data), x = linear(t, leaf, v);
      const size_t first = t.size();
      const Value side = linear(t, scale(t, x, 3), w);
      const Value passed = t.record("pass", copy_of(x.data), {x}, {}, [=](Backward& b, const Tensor& d, const Saved&) {
        if (inside) b.replay_from(first);
        b.accumulate(0, d);
      });
      const Value y = add(t, passed, side);
      std::vector<Parameter*> ready;
      Replay replay(t, Roots{{y, dout}}, weights, [&](Parameter& p) { ready.push_back(&p); });
      int steps = 0;
      while (replay.step()) ++steps;
      EXPECT_EQ(steps, inside ? 3 : 5);
      EXPECT_EQ(replay.pending_weights(), weights == Replay::Weights::delayed ? 2u : 0u);
      replay.run();
      EXPECT_EQ(ready, (std::vector{&w, &v}));
      return std::vector{replay.take_gradient(leaf), copy_of(w.gradient()), copy_of(v.gradient())};
    };
    const auto after = gradients(false), during = gradients(true);
    expect_bitwise(after[1], during[1]);
    // The gradient of x has two addends, whose sum is the same in either order.
    for (size_t i : {0u, 2u}) expect_bitwise(after[i], during[i]);
  }
}

TEST_F(TapeTest, OpMayReplayTheOpsWhoseResultItTakes) {
  Parameter& w = lab.parameter({4, 4});
  const Tensor data = lab.randn({3, 4}), dout = lab.randn({3, 4});
  const auto gradients = [&](bool inside) {
    w.clear_gradient();
    Tape t(lab.stream(), *policy);
    const Value x = t.leaf(data);
    const size_t first = t.size();
    const Value side = linear(t, scale(t, x, 3), w);
    const Value y = t.record("join", copy_of(x.data), {x, side}, {}, [=](Backward& b, const Tensor& d, const Saved&) {
      b.accumulate(1, d);
      if (inside) b.replay_from(first);
      b.accumulate(0, d);
    });
    Replay replay(t, Roots{{y, dout}});
    replay.run();
    return std::vector{replay.take_gradient(x), copy_of(w.gradient())};
  };
  const auto after = gradients(false), during = gradients(true);
  for (size_t i = 0; i < after.size(); ++i) expect_bitwise(after[i], during[i]);
}

TEST_F(TapeTest, GradientForAReplayedOpThrows) {
  for (const bool whole : {true, false}) {
    Tape t(lab.stream(), *policy);
    const Value x = t.leaf(lab.randn({3, 4}));
    const size_t first = t.size();
    const Value side = scale(t, x, 3);
    const Value y = t.record("join", copy_of(x.data), {x, side}, {}, [=](Backward& b, const Tensor& d, const Saved&) {
      b.replay_from(first);
      if (whole) return b.accumulate(1, d);
      b.accumulate(1, d.shape(), d.dtype(), [](const Tensor&, const Tensor&) { FAIL() << "the function was called"; });
    });
    EXPECT_EQ(message_of([&] {
                backward(t, y, lab.randn({3, 4}));
              }),
              "[tape] an op gives a gradient to an earlier op that it has already replayed");
  }
}

// Uses an op twice. Its pullback passes column sums of dout to the weight pullback of the same use, as RMSNorm passes
// partial sums of its gain's gradient.
TEST_F(TapeTest, PullbackPassesAValueToTheWeightPullbackOfItsUse) {
  Parameter& w = lab.parameter({4});
  const auto& k = kernels::kernels(lab.context);
  const Pullback pullback = [&k](Backward& b, const Tensor& dout, const Saved&) {
    const Tensor sums = Tensor::zeros({4}, dout.dtype(), dout.device());
    k.bias.backward(b.stream, sums, dout);
    b.hand_to_weights(sums.reshape({1, 4}));
    b.accumulate(0, dout);
  };
  const Pullback of_weights = [&k, &w](Backward& b, const Tensor&, const Saved&) {
    const auto sums = b.take_from_pullback<Tensor>();
    k.bias.backward(b.stream, w.gradient_to_add(b.stream), sums);
  };
  const Tensor data = lab.integers({3, 4}, 1, 5), dout = lab.integers({3, 4}, 1, 5);
  w.gradient();  // creates the gradient, which then persists
  const int64_t before = lab.context.allocator()->stats().total;
  const auto gradient = [&](Replay::Weights weights) {
    w.clear_gradient();
    {
      Tape t(lab.stream(), *policy);
      const Value x = t.leaf(data);
      const Value first = t.record("shift", copy_of(x.data), {x}, {}, pullback, {{&w}, of_weights});
      const Value second =
          t.record("shift", copy_of(first.data), {scale(t, first, 3)}, {}, pullback, {{&w}, of_weights});
      Replay(t, Roots{{second, dout}}, weights).run();
    }
    return values_of(w.gradient());
  };
  const auto d = values_of(dout);
  std::vector<double> expected(4, 0);
  for (size_t i = 0; i < d.size(); ++i) expected[i % 4] += d[i] + 3 * d[i];
  EXPECT_EQ(gradient(Replay::Weights::at_once), expected);
  EXPECT_EQ(gradient(Replay::Weights::delayed), expected);
  EXPECT_EQ(lab.context.allocator()->stats().total, before) << "a value passed between pullbacks was not freed";
}

TEST_F(TapeTest, TakingAMissingPullbackValueThrows) {
  Parameter& w = lab.parameter({4});
  const auto record = [&](Tape& t, Pullback pullback) {
    const Value x = t.leaf(lab.randn({3, 4}));
    return t.record("shift", copy_of(x.data), {x}, {}, std::move(pullback),
                    {{&w}, [](Backward& b, const Tensor&, const Saved&) { b.take_from_pullback<Tensor>(); }});
  };
  for (const Pullback& pullback : {Pullback([](Backward&, const Tensor&, const Saved&) {}),
                                   Pullback([](Backward&b, const Tensor&, const Saved&) { b.hand_to_weights(1); })}) {
    Tape t(lab.stream(), *policy);
    const Value y = record(t, pullback);
    EXPECT_EQ(message_of([&] {
                backward(t, y, lab.randn({3, 4}));
              }),
              "[tape] a weight pullback takes a value that its pullback did not pass to hand_to_weights()");
  }
}

TEST_F(TapeTest, DelayedWeightsTouchNoGradientBeforeTheirTask) {
  Parameter& w = lab.parameter({3, 3});
  const Value y = linear(tape, tape.leaf(lab.randn({2, 3})), w);
  int ready = 0;
  Replay replay(tape, Roots{{y, lab.randn({2, 3})}}, Replay::Weights::delayed, [&](Parameter&) { ++ready; });
  while (replay.step()) {
  }
  EXPECT_FALSE(w.has_gradient());
  EXPECT_EQ(ready, 0);
  EXPECT_TRUE(replay.step_weights());
  EXPECT_TRUE(w.has_gradient());
  EXPECT_EQ(ready, 1);
}

TEST_F(TapeTest, FirstContributionReplacesStaleMemoryAndTheNextAdds) {
  Parameter& w = lab.parameter({3, 3});
  const Tensor x = lab.integers({2, 3}, 1, 5), dout = lab.integers({2, 3}, 1, 5);
  fill_bytes(w.gradient(), 0xff);
  const auto step = [&] {
    Tape t(lab.stream(), *policy);
    backward(t, linear(t, t.leaf(x), w), dout);
    return copy_of(w.gradient());
  };
  const Tensor one = step(), two = step();
  const auto once = values_of(one), twice = values_of(two);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::isfinite(once[i]));
    EXPECT_EQ(twice[i], 2 * once[i]);  // integers, so sums are exact
  }
  w.clear_gradient();
  expect_bitwise(one, step());
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
