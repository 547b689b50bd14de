// Accounting of saved tensors, the policies that keep or offload them, and the recomputation of norms.
#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;
namespace {

using Roots = std::vector<Replay::Root>;
constexpr int64_t rows = 32, width = 16;

// Network with two norms, two activations and residuals. Two products read the output of the first norm.
struct Network {
  explicit Network(Lab& lab)
      : rms(lab.parameter({width})),
        layer(lab.parameter({width})),
        bias(lab.parameter({width})),
        gate_up(lab.parameter({2, width, width})),
        beside(lab.parameter({width, width})),
        down(lab.parameter({width, width})),
        heads(lab.parameter({width / 2})) {}

  Value operator()(Tape& t, const Value& x) const {
    const Value a = rms_norm(t, x, rms, 1e-5);
    const Value h = add(t, add(t, x, linear(t, a, beside)), swiglu(t, linear(t, a, gate_up)));
    const Value b = layer_norm(t, h, layer, &bias, 1e-5);
    return add(t, h, linear(t, gelu(t, b, GeluKind::exact), down));
  }
  // Applies a norm over heads. The product reads the norm's output in another shape.
  Value over_heads(Tape& t, const Value& x) const {
    const Value normed = rms_norm(t, reshape(t, x, {rows, 2, width / 2}), heads, 1e-5);
    return linear(t, reshape(t, normed, {rows, width}), down);
  }

  Parameter &rms, &layer, &bias, &gate_up, &beside, &down, &heads;
};

struct Pass {
  std::vector<Tensor> tensors;             // output, input gradient, gradients of parameters
  int64_t activations = 0, offloaded = 0;  // bytes held between forward and backward
};

class SavedTest : public testing::Test {
 protected:
  using Model = std::function<Value(Tape&, const Value&)>;

  Pass pass(SavePolicy& policy, bool recompute_norms, Replay::Weights weights, const Model& forward) {
    for (const auto& p : lab.parameters) p->clear_gradient();
    Pass r;
    const int64_t before = lab.context.allocator()->stats().total - gradient_bytes();
    {
      Tape tape(lab.stream(), policy, Tape::Mode::record, recompute_norms);
      // The copy has new memory, so the input counts as an activation.
      Value x = tape.leaf(copy_of(input)), y = forward(tape, x);
      x.data = {};
      r.tensors.push_back(copy_of(y.data));
      y.data = {};
      r.activations = lab.used(Category::activation);
      r.offloaded = offloaded();
      const Value root{r.tensors[0], y.id};
      Replay replay(tape, Roots{{root, dout}}, weights);
      replay.run();
      EXPECT_EQ(lab.used(Category::activation), 0) << "replay did not free all activations";
      EXPECT_EQ(offloaded(), 0);
      r.tensors.push_back(replay.take_gradient(x));
    }
    for (const auto& p : lab.parameters)
      if (p->has_gradient()) r.tensors.push_back(copy_of(p->gradient()));
    int64_t results = 0;
    for (const Tensor& t : r.tensors) results += t.bytes();
    EXPECT_EQ(lab.context.allocator()->stats().total - gradient_bytes(), before + results)
        << "some tensors were not freed";
    return r;
  }

  int64_t gradient_bytes() const { return lab.used(Category::gradient); }
  int64_t offloaded() { return lab.context.offload_allocator()->stats().used_in(Category::offload); }

  static void expect_equal(const Pass& expected, const Pass& actual) {
    ASSERT_EQ(expected.tensors.size(), actual.tensors.size());
    for (size_t i = 0; i < expected.tensors.size(); ++i) expect_bitwise(expected.tensors[i], actual.tensors[i]);
  }

  Lab lab;
  const Network network{lab};
  const Model model = [this](Tape& t, const Value& x) { return network(t, network(t, x)); };
  const Tensor input = lab.randn({rows, width}), dout = lab.randn({rows, width});
  const std::unique_ptr<SavePolicy> keep = keep_policy();
};

constexpr auto both = {Replay::Weights::at_once, Replay::Weights::delayed};

TEST_F(SavedTest, TensorsAreActivationsUntilTheirOpHasBeenReplayed) {
  Tape tape(lab.stream(), *keep);
  Value y = tape.leaf(copy_of(input));
  for (int i = 0; i < 3; ++i) y = gelu(tape, y, GeluKind::exact);
  const int64_t one = rows * width * 8;
  EXPECT_EQ(lab.used(Category::activation), 3 * one);
  const Value root{dout, y.id};
  y = {};
  Replay replay(tape, Roots{{root, dout}});
  for (int left = 2; left >= 0; --left) {
    EXPECT_TRUE(replay.step());
    EXPECT_EQ(lab.used(Category::activation), left * one);
  }
}

TEST_F(SavedTest, OneTensorSavedByTwoOpsIsCountedOnce) {
  Tape tape(lab.stream(), *keep);
  const Value x = tape.leaf(copy_of(input));
  gelu(tape, x, GeluKind::exact);
  gelu(tape, x, GeluKind::tanh);
  EXPECT_EQ(lab.used(Category::activation), rows * width * 8);
}

TEST_F(SavedTest, SavedRowsFromOtherRanksCountAsActivations) {
  const auto received = [&] { return Tensor::zeros({rows, width}, Dtype::f64, lab.context, Category::communication); };
  const int64_t one = rows * width * 8;
  {
    Tape tape(lab.stream(), *keep);
    gelu(tape, tape.leaf(received()), GeluKind::exact);
    EXPECT_EQ(lab.used(Category::activation), one);
  }
  const auto offload = offload_policy(1);
  Tape tape(lab.stream(), *offload);
  gelu(tape, tape.leaf(received()), GeluKind::exact);
  EXPECT_EQ(lab.used(Category::activation), 0);
  EXPECT_EQ(offloaded(), one);
}

TEST_F(SavedTest, SavedParameterRemainsInItsMemoryCategory) {
  Tape tape(lab.stream(), *keep);
  const int64_t before = lab.used(Category::parameter);
  gelu(tape, tape.leaf(network.beside.local()), GeluKind::exact);
  EXPECT_EQ(lab.used(Category::activation), 0);
  EXPECT_EQ(lab.used(Category::parameter), before);
}

TEST_F(SavedTest, OffloadingChangesNoBitOfTheResults) {
  const auto offload = offload_policy(0);
  for (auto weights : both) expect_equal(pass(*keep, false, weights, model), pass(*offload, false, weights, model));
}

TEST_F(SavedTest, OffloadingMovesBytesFromTheActivationsToTheOffloadCategory) {
  const auto offload = offload_policy(0);
  const Pass kept = pass(*keep, false, Replay::Weights::at_once, model);
  const Pass moved = pass(*offload, false, Replay::Weights::at_once, model);
  EXPECT_GT(kept.activations, 0);
  EXPECT_EQ(kept.offloaded, 0);
  EXPECT_EQ(moved.activations, 0);
  EXPECT_EQ(moved.offloaded, kept.activations);
}

TEST_F(SavedTest, SmallTensorsAreNotOffloaded) {
  const int64_t threshold = rows * width * 8;  // bytes, more than the statistics of a norm
  const auto offload = offload_policy(threshold);
  const Pass kept = pass(*keep, false, Replay::Weights::at_once, model);
  const Pass moved = pass(*offload, false, Replay::Weights::at_once, model);
  expect_equal(kept, moved);
  const int64_t statistics = 2 * (rows + 2 * rows) * 8;  // statistics of two rms_norms and two layer_norms
  EXPECT_EQ(moved.activations, statistics);
  EXPECT_EQ(moved.offloaded, kept.activations - statistics);
  const auto nothing = offload_policy(2 * threshold + 1);
  EXPECT_EQ(pass(*nothing, false, Replay::Weights::at_once, model).offloaded, 0);
}

TEST_F(SavedTest, OneTensorSavedByTwoOpsIsOffloadedOnce) {
  const auto offload = offload_policy(0);
  Tape tape(lab.stream(), *offload);
  const Value x = tape.leaf(copy_of(input));
  gelu(tape, x, GeluKind::exact);
  gelu(tape, x, GeluKind::tanh);
  EXPECT_EQ(offloaded(), rows * width * 8);
}

TEST_F(SavedTest, ReusedAddressIsOffloadedAgain) {
  const auto offload = offload_policy(0);
  Tape tape(lab.stream(), *offload);
  Value first = tape.leaf(copy_of(input));
  const std::uintptr_t address = first.data.address();
  const Value a = gelu(tape, first, GeluKind::exact);
  first.data = {};
  Value second = tape.leaf(lab.randn({rows, width}));
  ASSERT_EQ(second.data.address(), address) << "the allocator did not reuse the block, so this test proves nothing";
  gelu(tape, second, GeluKind::exact);
  EXPECT_EQ(offloaded(), 2 * rows * width * 8);
}

TEST_F(SavedTest, RecomputingNormsChangesNoBitOfTheResults) {
  for (auto weights : both) expect_equal(pass(*keep, false, weights, model), pass(*keep, true, weights, model));
}

TEST_F(SavedTest, RecomputedNormsAreNotKept) {
  const Pass kept = pass(*keep, false, Replay::Weights::at_once, model);
  const Pass recomputed = pass(*keep, true, Replay::Weights::at_once, model);
  EXPECT_EQ(kept.activations - recomputed.activations, 4 * rows * width * 8);
}

TEST_F(SavedTest, RecomputingNormsWithOffloadingChangesNoBitOfTheResults) {
  const auto offload = offload_policy(0);
  for (auto weights : both) {
    const Pass kept = pass(*keep, false, weights, model), moved = pass(*offload, true, weights, model);
    expect_equal(kept, moved);
    EXPECT_EQ(moved.activations, 0);
    EXPECT_LT(moved.offloaded, kept.activations);
  }
}

TEST_F(SavedTest, RecomputingANormReadInAnotherShapeChangesNoBitOfTheResults) {
  const Model over_heads = [this](Tape& t, const Value& x) { return network.over_heads(t, x); };
  for (auto weights : both)
    expect_equal(pass(*keep, false, weights, over_heads), pass(*keep, true, weights, over_heads));
}

TEST_F(SavedTest, RecomputedTensorIsComputedOnceUntilItIsReleased) {
  int computed = 0;
  RecomputedTensor t([&](Stream&) { return ++computed, input; });
  expect_bitwise(input, t.get(lab.stream()));
  t.get(lab.stream());
  EXPECT_EQ(computed, 1);
  t.release();
  t.get(lab.stream());
  EXPECT_EQ(computed, 2);
}

TEST_F(SavedTest, OnlyTheLastOpMayDeclareItsOutputRecomputable) {
  Tape tape(lab.stream(), *keep, Tape::Mode::record, true);
  const Value x = tape.leaf(input), y = scale(tape, x, 2);
  scale(tape, y, 3);
  try {
    tape.recompute_from_saved(y, [](Stream&, const Saved&) { return Tensor{}; });
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[tape] recompute_from_saved() was called for value 1; expected value 2, the first output of the last "
                 "op, scale");
  }
}

}  // namespace
}  // namespace hexad::tests
