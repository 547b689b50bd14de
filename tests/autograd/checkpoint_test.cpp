// Checkpointed segments, which backward recomputes.
#include <gtest/gtest.h>

#include <map>

#include "framework/autograd/ops/ops.h"
#include "framework/autograd/recomputation.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;
using Roots = std::vector<Replay::Root>;
constexpr int64_t rows = 16, width = 8;
constexpr auto both = {Replay::Weights::at_once, Replay::Weights::delayed};

struct Block {
  explicit Block(Lab& lab)
      : gain(lab.parameter({width})),
        gate_up(lab.parameter({2 * width, width})),
        bias(lab.parameter({2 * width})),
        down(lab.parameter({width, width})) {}
  Value operator()(Tape& t, const Value& x) const {
    const Value h = linear(t, rms_norm(t, x, gain, 1e-5), gate_up, &bias);
    return add(t, x, linear(t, swiglu(t, h), down));
  }
  Segment segment() const {
    return [this](Tape& t, std::span<const Value> x) { return std::vector<Value>{(*this)(t, x[0])}; };
  }
  Parameter &gain, &gate_up, &bias, &down;
};

class Checkpoint : public testing::Test {
 protected:
  using Model = std::function<Value(Tape&, const Value&)>;
  struct Pass {
    std::vector<Tensor> tensors;
    int64_t activations = 0;
    std::map<std::string, int> ready;
  };

  Pass pass(const Model& model, Replay::Weights weights, bool recompute_norms = false, SavePolicy* policy = nullptr) {
    for (const auto& p : lab.parameters) p->clear_gradient();
    Pass r;
    Tape tape(lab.stream(), policy ? *policy : *keep, Tape::Mode::record, recompute_norms);
    Value x = tape.leaf(copy_of(input)), y = model(tape, x);
    x.data = {};
    r.tensors.push_back(copy_of(y.data));
    y.data = {};
    r.activations = lab.used(Category::activation);
    Replay replay(tape, Roots{{{r.tensors[0], y.id}, dout}}, weights, [&](Parameter& p) { ++r.ready[p.name()]; });
    replay.run();
    EXPECT_EQ(lab.used(Category::activation), 0) << "replay did not free all activations";
    r.tensors.push_back(replay.take_gradient(x));
    for (const auto& p : lab.parameters) r.tensors.push_back(copy_of(p->gradient()));
    return r;
  }

  static void expect_equal(const Pass& expected, const Pass& actual) {
    for (size_t i = 0; i < expected.tensors.size(); ++i) expect_bitwise(expected.tensors[i], actual.tensors[i]);
    EXPECT_EQ(expected.ready, actual.ready);
    for (const auto& [name, count] : actual.ready) EXPECT_EQ(count, 1) << name;
  }

  Value recomputed(Tape& t, const Value& x, const Segment& segment) {
    const Value inputs[] = {x};
    return checkpoint(t, "block", inputs, segment)[0];
  }

  Lab lab;
  const Block a{lab}, b{lab};
  const Tensor input = lab.randn({rows, width}), dout = lab.randn({rows, width});
  const std::unique_ptr<SavePolicy> keep = keep_policy();
  const Model direct = [this](Tape& t, const Value& x) { return b(t, a(t, x)); };
  const Model blocks = [this](Tape& t, const Value& x) {
    return recomputed(t, recomputed(t, x, a.segment()), b.segment());
  };
  // Both blocks are segments inside an outer segment, so the recomputation contains recomputed segments.
  const Model nested = [this](Tape& t, const Value& x) {
    return recomputed(t, x, [this](Tape& inner, std::span<const Value> in) {
      return std::vector<Value>{recomputed(inner, recomputed(inner, in[0], a.segment()), b.segment())};
    });
  };
};

TEST_F(Checkpoint, EqualsRunningDirectlyBitForBit) {
  for (auto weights : both) expect_equal(pass(direct, weights), pass(blocks, weights));
}

TEST_F(Checkpoint, NestedEqualsRunningDirectlyBitForBit) {
  for (auto weights : both) expect_equal(pass(direct, weights), pass(nested, weights));
}

TEST_F(Checkpoint, RecomputedNormsEqualADirectRunBitwise) {
  for (auto weights : both) {
    expect_equal(pass(direct, weights), pass(blocks, weights, true));
    expect_equal(pass(direct, weights), pass(nested, weights, true));
  }
}

TEST_F(Checkpoint, OffloadedSegmentEqualsADirectRunBitwise) {
  const auto offload = offload_policy(0);
  for (auto weights : both) expect_equal(pass(direct, weights), pass(nested, weights, true, offload.get()));
}

TEST_F(Checkpoint, EqualsRunningDirectlyForABlockUsedTwice) {
  const Model plain = [this](Tape& t, const Value& x) { return a(t, a(t, x)); };
  const Model tied = [this](Tape& t, const Value& x) {
    return recomputed(t, recomputed(t, x, a.segment()), a.segment());
  };
  for (auto weights : both) {
    const Pass expected = pass(plain, weights), actual = pass(tied, weights);
    for (size_t i = 0; i < 6; ++i) expect_bitwise(expected.tensors[i], actual.tensors[i]);
    EXPECT_EQ(expected.ready, actual.ready);
  }
}

TEST_F(Checkpoint, KeepsTheInputsOnly) {
  const int64_t one = rows * width * 8;
  EXPECT_GT(pass(direct, Replay::Weights::at_once).activations, 8 * one);
  EXPECT_EQ(pass(blocks, Replay::Weights::at_once).activations, 2 * one);
  EXPECT_EQ(pass(nested, Replay::Weights::at_once).activations, one);
}

TEST_F(Checkpoint, GradientsMatchFiniteDifferences) {
  gradcheck(lab, {lab.randn({3, width})}, [&](Tape& t, Inputs x) { return nested(t, x[0]); });
}

TEST_F(Checkpoint, WeightTasksRemainDelayed) {
  Tape tape(lab.stream(), *keep);
  const Value y = blocks(tape, tape.leaf(copy_of(input)));
  for (const auto& p : lab.parameters) p->clear_gradient();
  Replay replay(tape, Roots{{y, dout}}, Replay::Weights::delayed);
  while (replay.step()) {
  }
  for (const auto& p : lab.parameters) EXPECT_FALSE(p->has_gradient()) << p->name();
  EXPECT_GT(replay.pending_weights(), 0u);
  while (replay.step_weights()) {
  }
  for (const auto& p : lab.parameters) EXPECT_TRUE(p->has_gradient()) << p->name();
}

// Layers would count their statistics twice if the recomputation ran in record mode.
TEST_F(Checkpoint, RunsTheSegmentFirstInForgetModeThenInRecomputeMode) {
  std::vector<Tape::Mode> modes;
  const Segment segment = [&](Tape& t, std::span<const Value> x) {
    modes.push_back(t.mode());
    return std::vector<Value>{a(t, x[0])};
  };
  Tape tape(lab.stream(), *keep);
  const Value y = recomputed(tape, tape.leaf(input), segment);
  EXPECT_EQ(modes, (std::vector{Tape::Mode::forget}));
  backward(tape, y, dout);
  EXPECT_EQ(modes, (std::vector{Tape::Mode::forget, Tape::Mode::recompute}));
}

TEST_F(Checkpoint, EvaluationRunsTheSegmentOnceOnTheGivenTape) {
  Tape forget(lab.stream(), *keep, Tape::Mode::forget);
  int runs = 0;
  const Tape* seen = nullptr;
  recomputed(forget, {input, -1}, [&](Tape& t, std::span<const Value> x) {
    ++runs, seen = &t;
    return std::vector<Value>{a(t, x[0])};
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(seen, &forget);
}

TEST_F(Checkpoint, ThrowsWhenRecomputationGivesMoreOutputs) {
  int runs = 0;
  Tape tape(lab.stream(), *keep);
  const Value y = recomputed(tape, tape.leaf(input), [&](Tape& t, std::span<const Value> in) {
    const Value out = gelu(t, in[0], GeluKind::exact);
    return ++runs == 1 ? std::vector{out} : std::vector{out, out};
  });
  Replay replay(tape, Roots{{y, dout}});
  EXPECT_THROW(replay.run(), std::logic_error);
}

TEST_F(Checkpoint, PassesEachOfSeveralValuesItsGradient) {
  gradcheck(lab, {lab.randn({3, width}), lab.randn({3, width})}, [&](Tape& t, Inputs x) {
    return checkpoint(t, "pair", x, [&](Tape& inner, std::span<const Value> in) {
      return std::vector<Value>{add(inner, a(inner, in[0]), in[1]), gelu(inner, in[1], GeluKind::exact), in[0]};
    });
  });
}

TEST_F(Checkpoint, OutputOfOnlyConstantsMayBeARoot) {
  Tape tape(lab.stream(), *keep);
  const Value inputs[] = {tape.leaf(copy_of(input)), {lab.randn({rows, width}), -1}};
  const auto outs = checkpoint(tape, "pair", inputs, [](Tape& t, std::span<const Value> in) {
    return std::vector<Value>{scale(t, in[0], 2), scale(t, in[1], 3)};
  });
  Replay replay(tape, Roots{{outs[0], dout}, {outs[1], dout}});
  replay.run();
  const Tensor dx = replay.take_gradient(inputs[0]);
  const auto got = values_of(dx), given = values_of(dout);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2 * given[i]);
}

TEST_F(Checkpoint, TrainsItsParametersWithConstantInputs) {
  Tape tape(lab.stream(), *keep);
  const Value y = recomputed(tape, {input, -1}, a.segment());
  backward(tape, y, dout);
  for (Parameter* p : {&a.gain, &a.gate_up, &a.bias, &a.down}) EXPECT_TRUE(p->has_gradient()) << p->name();
}

TEST_F(Checkpoint, ReportsParametersWithoutRerunningWhenUnused) {
  int runs = 0;
  Tape tape(lab.stream(), *keep);
  const Value x = tape.leaf(copy_of(input));
  recomputed(tape, x, [&](Tape& t, std::span<const Value> in) { return ++runs, std::vector<Value>{a(t, in[0])}; });
  const Value y = b(tape, x);
  std::map<std::string, int> ready;
  Replay(tape, Roots{{y, dout}}, Replay::Weights::delayed, [&](Parameter& p) { ++ready[p.name()]; }).run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(ready.size(), lab.parameters.size());
  for (const auto& [name, count] : ready) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace hexad::tests
