// Replay of a tape: step by step, started by ops, and with delayed gradients of weights.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/autograd/tape_fixture.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

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

// The pullback of an op replays earlier ops. Each op is replayed once. The gradients are bitwise identical to the
// gradients of a replay in which no pullback replays other ops.
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

TEST_F(TapeTest, OpMayReplayTheOpsOfItsInputs) {
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
    EXPECT_EQ(
        message_of([&] {
          backward(t, y, lab.randn({3, 4}));
        }),
        "[tape] an op gives a gradient to its input 1, which comes from an op that backward has already replayed; "
        "expected an op that is replayed later");
  }
}

// Uses an op twice. Its pullback passes column sums of dout to the weight pullback of the same use. RMSNorm passes
// partial sums of its gain's gradient in this way.
TEST_F(TapeTest, PullbackSavesTensorsForTheWeightPullbackOfItsUse) {
  Parameter& w = lab.parameter({4});
  const auto& k = kernels::kernels(lab.context);
  const Pullback pullback = [&k](Backward& b, const Tensor& dout, const Saved&) {
    const Tensor sums = Tensor::zeros({4}, dout.dtype(), dout.device());
    k.bias.backward(b.stream, sums, dout);
    b.save_for_weights(save(sums.reshape({1, 4})));
    b.accumulate(0, dout);
  };
  const Pullback of_weights = [&k, &w](Backward& b, const Tensor&, const Saved&) {
    const auto [sums] = b.saved_by_pullback().get<1>();
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
  EXPECT_EQ(lab.context.allocator()->stats().total, before) << "a tensor saved for a weight pullback was not freed";
}

TEST_F(TapeTest, ReadingTensorsThatThePullbackDidNotSaveThrows) {
  Parameter& w = lab.parameter({4});
  for (const size_t count : {0, 2}) {
    Tape t(lab.stream(), *policy);
    const Value x = t.leaf(lab.randn({3, 4}));
    const Value y =
        t.record("shift", copy_of(x.data), {x}, {},
                 [count](Backward& b, const Tensor&, const Saved&) { b.save_for_weights(std::vector<Tensor>(count)); },
                 {{&w}, [](Backward& b, const Tensor&, const Saved&) { b.saved_by_pullback().get<1>(); }});
    EXPECT_EQ(message_of([&] {
                backward(t, y, lab.randn({3, 4}));
              }),
              "[tape] the number of saved tensors that an op reads is 1; expected " + std::to_string(count) +
                  ", the number that the op saved");
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

}  // namespace
}  // namespace hexad::tests
