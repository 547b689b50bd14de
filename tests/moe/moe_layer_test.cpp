// Statistics of the MoE layer, and edge cases of its inputs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/moe/moe_lab.h"
#include "tests/moe/naive_moe.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

TEST(MoeLayer, CountsChoicesBeforeDropsAndWithoutPadding) {
  MoeLab lab({"model.moe.capacity_factor=0.5", "model.moe.routing=balanced"});
  forward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4, 8));
  // Eight tokens have two slots each over four experts. Each expert keeps two of its four slots.
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(lab.observed().assignments, 16);
  EXPECT_EQ(lab.observed().dropped, 8);
}

TEST(MoeLayer, PaddingChangesNoStatisticAndNoValidToken) {
  const std::vector<std::string> overrides{"model.moe.capacity_factor=0.8", "model.moe.z_loss=0.1"};
  MoeLab padded(overrides), plain(overrides);
  const Tensor x = padded.randn({12, padded.config.hidden});
  const Tensor y = forward(padded, x, padded.batch(3, 4, 7));
  const Tensor first = plain.values(values_of(x.slice(0, 0, 7)), {7, plain.config.hidden});
  const Tensor expected = forward(plain, first, plain.batch(1, 7));
  expect_close(expected, y.slice(0, 0, 7), tolerance(Dtype::f64, 100));
  expect_zeros(y.slice(0, 7, 12));
  const RouterStatistics &a = plain.observed(), &b = padded.observed();
  EXPECT_EQ(a.counts, b.counts);
  EXPECT_EQ(a.dropped, b.dropped);
  EXPECT_NEAR(a.aux_loss, b.aux_loss, tolerance(Dtype::f64, 100));
  EXPECT_NEAR(a.z_loss, b.z_loss, tolerance(Dtype::f64, 100));
}

// Statistics would be counted twice if a recomputation reported them.
TEST(MoeLayer, OnlyTheFirstPassCounts) {
  for (const char* scope : {"micro_batch", "global_batch"}) {
    SCOPED_TRACE(testing::Message() << "scope " << scope);
    MoeLab lab({"model.moe.z_loss=0.1", cat("model.moe.aux_loss.scope=", scope)});
    const MicroBatch batch = lab.batch(3, 4);
    const Tensor x = lab.randn({12, lab.config.hidden});
    const auto policy = keep_policy();
    const auto observed_after = [&](Tape::Mode mode) {
      Tape tape(lab.stream(), *policy, mode);
      lab.layer(tape, tape.leaf(x), {.batch = batch, .statistics = &lab.statistics.layers});
      return lab.observed();
    };
    const RouterStatistics first = observed_after(Tape::Mode::forget);
    EXPECT_EQ(first.assignments, 24);
    EXPECT_GT(first.aux_loss, 0);
    EXPECT_GT(first.z_loss, 0);
    const RouterStatistics second = observed_after(Tape::Mode::recompute);
    EXPECT_EQ(second.counts, first.counts);
    EXPECT_EQ(second.aux_loss, first.aux_loss);
    EXPECT_EQ(second.z_loss, first.z_loss);
  }
}

TEST(MoeLayer, EvaluationHasNoCountsAndNoAuxiliaryLosses) {
  MoeLab lab;
  const MicroBatch batch = lab.batch(3, 4);
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  EXPECT_FALSE(lab.layer(tape, {lab.randn({12, lab.config.hidden})}, {.batch = batch}).aux_losses.data.defined());
  EXPECT_EQ(lab.observed().assignments, 0);
}

// The logits differ by less than the resolution of bf16.
TEST(MoeLayer, RouterResolvesWeightsFinerThanBf16) {
  comm::SelfGroup self;
  MoeLab lab({"model.moe.top_k=1", "model.moe.aux_loss.coefficient=0"}, self, 1, Dtype::bf16);
  const Tensor& router = lab.parameter("router.weight").local();
  EXPECT_EQ(router.dtype(), Dtype::f32);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), router, 0.0);
  const size_t hidden = lab.config.hidden;
  change<float>(router, [&](std::span<float> values) {
    for (size_t e = 0; e < 4; ++e) values[e * hidden] = 1 + 1e-5f * static_cast<float>(e == 2);
  });
  const Tensor x = lab.randn({12, lab.config.hidden}, Dtype::bf16);
  change<bf16>(x, [&](std::span<bf16> values) {
    for (size_t t = 0; t < 12; ++t) values[t * hidden] = bf16(1.0f);
  });
  forward(lab, x, lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{0, 0, 12, 0}));
}

TEST(MoeLayer, NanTokenDoesNotChangeOtherTokens) {
  for (const char* capacity : {"none", "0.8"}) {
    MoeLab lab({std::string("model.moe.capacity_factor=") + capacity, "model.moe.drop=position"});
    const Tensor x = lab.randn({12, lab.config.hidden});
    const Tensor before = forward(lab, x, lab.batch(3, 4));
    change<double>(x, [&](std::span<double> values) { values[11 * lab.config.hidden] = std::nan(""); });
    const Tensor after = forward(lab, x, lab.batch(3, 4));
    expect_close(before.slice(0, 0, 11), after.slice(0, 0, 11), tolerance(Dtype::f64, 100));
  }
}

TEST(MoeLayer, EqualLogitsGoToTheFirstExperts) {
  MoeLab lab;
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  forward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{12, 12, 0, 0}));
}

// Results of forward and backward, with a gradient of 1 for every element of the outputs.
struct Passed {
  Tensor y, dx;
};
Passed forward_backward(MoeLab& lab, const Tensor& x, const MicroBatch& batch) {
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value in = tape.leaf(x);
  const auto out = lab.layer(tape, in, {.batch = batch, .statistics = &lab.statistics.layers});
  for (const auto& p : lab.parameters) p->clear_gradient();
  const Tensor one = Tensor::like(out.y.data), aux_losses = Tensor::like(out.aux_losses.data);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), one, 1.0);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), aux_losses, 1.0);
  const Replay::Root roots[] = {{out.y, one}, {out.aux_losses, aux_losses}};
  Replay replay(tape, roots);
  replay.run();
  return {out.y.data, replay.take_gradient(in)};
}

void expect_finite(const Tensor& t) {
  for (double v : values_of(t)) ASSERT_TRUE(std::isfinite(v));
}

TEST(MoeLayer, ExpertsWithoutTokensGetZeroGradientsFromPoisonedMemory) {
  MoeLab lab({"model.bias=true", "model.moe.shared_experts=1"});
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  // All tokens choose experts 0 and 1.
  const auto [y, dx] = forward_backward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  expect_finite(y), expect_finite(dx);
  for (const auto& p : lab.parameters) {
    SCOPED_TRACE(p->name());
    expect_finite(p->gradient());
    if (p->name().find(".experts.") == std::string::npos) continue;
    expect_zeros(p->gradient().slice(0, 2, 4));
    double sum = 0;
    for (double g : values_of(p->gradient().slice(0, 0, 2))) sum += std::abs(g);
    EXPECT_GT(sum, 0);
  }
}

TEST(MoeLayer, TokensAboveTheCapacityOfTheOnlyChosenExpertAreDroppedAndCounted) {
  MoeLab lab({"model.moe.top_k=1", "model.moe.capacity_factor=1"});
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  const auto [y, dx] = forward_backward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{12, 0, 0, 0}));
  EXPECT_EQ(lab.observed().dropped, 9);  // 3 of 12 are kept, the mean over the four experts
  expect_zeros(y.slice(0, 3, 12));
  expect_finite(dx);
}

TEST(MoeLayer, OneTokenAndNoTokenPassThrough) {
  for (const int64_t tokens : {1, 0}) {
    MoeLab lab;
    const auto [y, dx] = forward_backward(lab, lab.randn({tokens, lab.config.hidden}), lab.batch(tokens, 1));
    EXPECT_EQ(y.shape(), (Shape{tokens, lab.config.hidden}));
    EXPECT_EQ(dx.shape(), y.shape());
    expect_finite(y), expect_finite(dx);
    for (const auto& p : lab.parameters) expect_finite(p->gradient_to_add(lab.stream()));
    EXPECT_TRUE(std::isfinite(lab.observed().aux_loss));
  }
}

TEST(MoeLayer, AuxiliaryLossesAddToTheGradientOfTheRouter) {
  const auto router_gradient = [](const std::vector<std::string>& overrides) {
    MoeLab lab(overrides);
    const Tensor x = lab.randn({12, lab.config.hidden});
    forward_backward(lab, x, lab.batch(3, 4));
    return values_of(lab.parameter("router.weight").gradient());
  };
  const auto plain = router_gradient({"model.moe.aux_loss.coefficient=1e-30"});
  EXPECT_NE(plain, router_gradient({"model.moe.aux_loss.coefficient=0.1"}));
  EXPECT_NE(plain, router_gradient({"model.moe.aux_loss.coefficient=1e-30", "model.moe.z_loss=0.1"}));
}

}  // namespace
}  // namespace hexad::tests
