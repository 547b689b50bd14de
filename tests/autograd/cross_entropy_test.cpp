// Embedding, and the model's head with its cross-entropy loss.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "framework/base/block_sizes.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using Inputs = const std::vector<Value>&;

TEST(Embedding, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& table = lab.parameter({4, 3});
  const Tensor ids = lab.values<int32_t>({0, 1, 2, 3});
  gradcheck(lab, {}, [&](Tape& t, Inputs) { return embedding(t, table, ids); });
}

TEST(Embedding, RepeatedIdsAddTheirGradientsAndUnusedRowsGetZero) {
  Lab lab;
  Parameter& table = lab.parameter({5, 3});
  const Tensor ids = lab.values<int32_t>({4, 1, 4, 4});
  gradcheck(lab, {}, [&](Tape& t, Inputs) { return embedding(t, table, ids); }, {.zeros = Zeros::expected});
  for (int64_t unused : {0, 2, 3}) expect_zeros(table.gradient().slice(0, unused, unused + 1));
}

struct Case {
  std::string name;
  std::vector<int32_t> targets;
  int64_t block_rows;
  Zeros zeros = Zeros::mistrusted;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CrossEntropy : public testing::TestWithParam<Case> {};

TEST_P(CrossEntropy, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Tensor targets = lab.values(GetParam().targets);
  constexpr double scale = 0.25;
  gradcheck(lab, {lab.randn({targets.dim(0), 3})},
            [&](Tape& t, Inputs x) {
              return linear_cross_entropy(t, x[0], w, targets,
                                          {.gradient_scale = scale, .block_rows = GetParam().block_rows});
            },
            {.root_gradient = scale, .zeros = GetParam().zeros});
}

INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropy,
                         testing::Values(Case{"whole", {0, 5, 2, 2, 1}, 256}, Case{"blocks", {0, 5, 2, 2, 1}, 2},
                                         Case{"one_row_at_a_time", {0, 5, 2}, 1}, Case{"exact_blocks", {1, 2, 3, 4}, 2},
                                         Case{"ignored", {0, -1, 2, 5, -1}, 2},
                                         Case{"all_ignored", {-1, -1, -1}, 2, Zeros::expected}),
                         [](const auto& test) { return test.param.name; });

TEST(CrossEntropyLoss, GradientOfTheBiasMatchesFiniteDifferences) {
  Lab lab;
  Parameter &w = lab.parameter({6, 3}), &bias = lab.parameter({6});
  const Tensor targets = lab.values<int32_t>({0, 5, -1, 2, 1});
  gradcheck(lab, {lab.randn({5, 3})},
            [&](Tape& t, Inputs x) {
              return linear_cross_entropy(t, x[0], w, targets,
                                          {.gradient_scale = 0.25, .block_rows = 2, .bias = &bias});
            },
            {.root_gradient = 0.25});
}

// Results of one call of linear_cross_entropy().
struct Outcome {
  Tensor loss, row_losses, dx, dw;
};
Outcome outcome(Lab& lab, Parameter& w, const Tensor& x, const std::vector<int32_t>& targets,
                const CrossEntropyOptions& options) {
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  w.clear_gradient();
  const Value leaf = tape.leaf(x);
  Tensor rows;
  const Value loss = linear_cross_entropy(tape, leaf, w, lab.values(targets), options, &rows);
  Replay replay(tape, std::vector<Replay::Root>{{loss, lab.values<double>({options.gradient_scale})}});
  replay.run();
  return {loss.data, rows, replay.take_gradient(leaf), copy_of(w.gradient_to_add(lab.stream()))};
}

TEST(CrossEntropyLoss, BlocksDoNotChangeTheResult) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Tensor x = lab.randn({7, 3});
  const std::vector<int32_t> targets{0, 5, -1, 2, 2, 1, 3};
  const Outcome whole = outcome(lab, w, x, targets, {.gradient_scale = 0.5, .block_rows = 7});
  for (int64_t block : {1, 2, 3, 100}) {
    SCOPED_TRACE(cat("block_rows ", block));
    const Outcome in_blocks = outcome(lab, w, x, targets, {.gradient_scale = 0.5, .block_rows = block});
    expect_bitwise(whole.loss, in_blocks.loss);
    expect_bitwise(whole.row_losses, in_blocks.row_losses);
    expect_bitwise(whole.dx, in_blocks.dx);
    expect_close(whole.dw, in_blocks.dw, tolerance(Dtype::f64, 7));
  }
}

TEST(CrossEntropyLoss, DefaultBlocksDoNotChangeTheResult) {
  Lab lab;
  const int64_t rows = 2 * BlockSizes{}.logit_rows + 3;
  Parameter& w = lab.parameter({6, 3});
  const Tensor x = lab.randn({rows, 3});
  std::vector<int32_t> targets;
  for (int64_t t = 0; t < rows; ++t) targets.push_back(static_cast<int32_t>(t % 7) - 1);
  const Outcome whole = outcome(lab, w, x, targets, {.gradient_scale = 0.5, .block_rows = rows}),
                in_blocks = outcome(lab, w, x, targets, {.gradient_scale = 0.5});
  expect_bitwise(whole.row_losses, in_blocks.row_losses);
  expect_bitwise(whole.dx, in_blocks.dx);
  expect_close(whole.dw, in_blocks.dw, tolerance(Dtype::f64, rows));
}

TEST(CrossEntropyLoss, IsTheSumOfItsRowsAndMatchesTheFormula) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Tensor x = lab.randn({4, 3});
  const std::vector<int32_t> targets{0, -1, 5, 2};
  const Outcome got = outcome(lab, w, x, targets, {.gradient_scale = 1, .block_rows = 3});
  const auto xs = values_of(x), ws = values_of(w.local()), losses = values_of(got.row_losses);
  double sum = 0;
  for (size_t t = 0; t < 4; ++t) {
    std::vector<double> logits(6);
    double total = 0;
    for (size_t v = 0; v < 6; ++v) {
      for (size_t d = 0; d < 3; ++d) logits[v] += xs[t * 3 + d] * ws[v * 3 + d];
      total += std::exp(logits[v]);
    }
    const int32_t target = targets[t];
    const double loss = target < 0 ? 0 : std::log(total) - logits[target];
    EXPECT_NEAR(losses[t], loss, tolerance(Dtype::f64, 18) * 10) << "row " << t;
    sum += loss;
  }
  EXPECT_NEAR(values_of(got.loss)[0], sum, tolerance(Dtype::f64, 18) * 10);
}

// Computes the same loss in three dtypes. bf16 runs twice: with a rounded copy of the gradient of f32 logits, and with
// bf16 logits.
TEST(CrossEntropyLoss, F32AndBf16AgreeWithF64) {
  Lab lab;
  const Tensor x = lab.randn({7, 4}, Dtype::bf16), w = lab.randn({9, 4}, Dtype::bf16);
  const std::vector<int32_t> targets{0, 5, -1, 2, 8, 1, 3};
  const auto converted = [&](const Tensor& t, Dtype dtype) {
    const Tensor out = Tensor::empty(t.shape(), dtype, lab.context);
    kernels::kernels(t.device()).pointwise.copy(lab.stream(), out, t);
    return out;
  };
  const auto in = [&](Dtype dtype, std::optional<Dtype> of_logits = {}) {
    Parameter& weights = lab.parameter(w.shape(), dtype);
    kernels::kernels(w.device()).pointwise.copy(lab.stream(), weights.local(), w);
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    const Value leaf = tape.leaf(converted(x, dtype));
    const Value loss = linear_cross_entropy(tape, leaf, weights, lab.values(targets),
                                            {.gradient_scale = 0.125, .block_rows = 3, .logits_dtype = of_logits});
    EXPECT_EQ(loss.data.dtype(), accumulator_dtype(dtype));
    Replay replay(tape, std::vector<Replay::Root>{{loss, converted(lab.values<double>({0.125}), loss.data.dtype())}});
    replay.run();
    EXPECT_EQ(weights.gradient().dtype(), accumulator_dtype(dtype));
    const Tensor dx = replay.take_gradient(leaf);
    EXPECT_EQ(dx.dtype(), dtype);
    return std::vector{converted(loss.data, Dtype::f64), converted(dx, Dtype::f64),
                       converted(weights.gradient(), Dtype::f64)};
  };
  const auto expected = in(Dtype::f64);
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    SCOPED_TRACE(cat(dtype));
    const auto actual = in(dtype);
    expect_close(expected[0], actual[0], tolerance(Dtype::f32, 7 * 9));
    for (size_t i : {1, 2}) expect_close(expected[i], actual[i], tolerance(dtype, 9));
  }
  const auto of_wide_logits = in(Dtype::bf16), of_logits_in_bf16 = in(Dtype::bf16, Dtype::bf16);
  for (size_t i : {0, 1, 2}) expect_close(expected[i], of_logits_in_bf16[i], tolerance(Dtype::bf16, 9));
  EXPECT_NE(values_of(of_wide_logits[0]), values_of(of_logits_in_bf16[0])) << "the logits were not rounded";
}

// All logits are small integers, with and without the bias, so bf16 does not round them.
TEST(CrossEntropyLoss, LogitsInBf16HaveTheBias) {
  Lab lab;
  Parameter &w = lab.parameter({9, 4}, Dtype::bf16), &bias = lab.parameter({9}, Dtype::f32);
  const auto& copy = kernels::kernels(lab.context).pointwise.copy;
  copy(lab.stream(), w.local(), lab.integers({9, 4}, -2, 3, Dtype::bf16));
  copy(lab.stream(), bias.local(), lab.integers({9}, -3, 4, Dtype::f32));
  const Tensor x = lab.integers({7, 4}, -2, 3, Dtype::bf16), targets = lab.values<int32_t>({8, 0, 3, -1, 5, 5, 1});
  struct Result {
    Tensor row_losses, dbias;
  };
  const auto in = [&](Dtype of_logits, Parameter* with) -> Result {
    bias.clear_gradient();
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    Tensor row_losses;
    linear_cross_entropy(tape, tape.leaf(x), w, targets,
                         {.gradient_scale = 0.125, .block_rows = 3, .bias = with, .logits_dtype = of_logits},
                         &row_losses);
    return {row_losses, copy_of(bias.gradient_to_add(lab.stream()))};
  };
  const Result wide = in(Dtype::f32, &bias), rounded = in(Dtype::bf16, &bias);
  expect_close(wide.row_losses, rounded.row_losses, tolerance(Dtype::f32, 9));
  expect_close(wide.dbias, rounded.dbias, tolerance(Dtype::bf16, 9));
  EXPECT_NE(values_of(in(Dtype::bf16, nullptr).row_losses), values_of(rounded.row_losses));
}

TEST(CrossEntropyLoss, ErrorNamesTheDtypeOfTheLogits) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto message = [&](Dtype dtype, Dtype of_logits) -> std::string {
    try {
      linear_cross_entropy(tape, tape.leaf(lab.randn({2, 3}, dtype)), lab.parameter({6, 3}, dtype),
                           lab.values<int32_t>({1, 2}), {.logits_dtype = of_logits});
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(Dtype::f32, Dtype::bf16), "[cross_entropy] logits_dtype is bf16 for x in f32; expected f32");
  EXPECT_EQ(message(Dtype::bf16, Dtype::f64),
            "[cross_entropy] logits_dtype is f64 for x in bf16; expected f32 or bf16");
}

// The trainer passes the scale 0 if it counts no valid token.
TEST(CrossEntropyLoss, IgnoredTargetsGiveZeroLossAndGradientsForEveryScale) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  for (double scale : {0.0, 0.25}) {
    SCOPED_TRACE(cat("scale ", scale));
    const Outcome got = outcome(lab, w, lab.randn({3, 3}), {-1, -1, -1}, {.gradient_scale = scale, .block_rows = 2});
    expect_zeros(got.loss);
    expect_zeros(got.row_losses);
    expect_zeros(got.dx);
    expect_zeros(got.dw);
  }
}

TEST(CrossEntropyLoss, GradientScaleZeroGivesZeroGradients) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Outcome got = outcome(lab, w, lab.randn({3, 3}), {1, 0, 4}, {.gradient_scale = 0, .block_rows = 2});
  EXPECT_GT(values_of(got.loss)[0], 0);
  expect_zeros(got.dx);
  expect_zeros(got.dw);
}

TEST(CrossEntropyLoss, IsZeroForNoRows) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Outcome got = outcome(lab, w, lab.randn({0, 3}), {}, {.gradient_scale = 0.5});
  expect_zeros(got.loss);
  expect_zeros(got.dw);
}

TEST(CrossEntropyLoss, IgnoredRowsMayBeNaN) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const Tensor x = lab.randn({3, 3});
  change<double>(x, [](std::span<double> values) { values[4] = std::nan(""); });
  const Outcome got = outcome(lab, w, x, {2, -1, 5}, {.gradient_scale = 0.5, .block_rows = 2});
  EXPECT_TRUE(std::isfinite(values_of(got.loss)[0]));
  expect_zeros(got.dx.slice(0, 1, 2));
}

TEST(CrossEntropyLoss, BackwardThrowsForAnUnannouncedGradient) {
  Lab lab;
  if (!lab.context.on_host()) GTEST_SKIP() << "devices skip this check, because it would wait for the gradient";
  Parameter& w = lab.parameter({6, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value loss = linear_cross_entropy(tape, tape.leaf(lab.randn({2, 3})), w, lab.values<int32_t>({1, 2}),
                                          {.gradient_scale = 0.25});
  try {
    backward(tape, loss, lab.values<double>({0.5}));
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[cross_entropy] the gradient of the loss is 0.5; expected gradient_scale, which is 0.25");
  }
}

TEST(CrossEntropyLoss, AcceptsAScaleThatF32Rounds) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3}, Dtype::f32);
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value loss = linear_cross_entropy(tape, tape.leaf(lab.randn({2, 3}, Dtype::f32)), w,
                                          lab.values<int32_t>({1, 2}), {.gradient_scale = 1.0 / 3});
  EXPECT_NO_THROW(backward(tape, loss, lab.values<float>({1.0f / 3})));
}

TEST(CrossEntropyLoss, EvaluationDoesNotChangeGradients) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  linear_cross_entropy(tape, tape.leaf(lab.randn({2, 3})), w, lab.values<int32_t>({1, 2}), {});
  EXPECT_FALSE(w.has_gradient());
}

TEST(CrossEntropyLoss, NeedsLessMemoryThanTwoBlocksOfLogits) {
  Lab lab;
  constexpr int64_t rows = 64, hidden = 2, vocab = 1000, block = 8;
  Parameter& w = lab.parameter({vocab, hidden});
  w.gradient();
  const Tensor x = lab.randn({rows, hidden}), targets = lab.values(std::vector<int32_t>(rows, 3));
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value leaf = tape.leaf(x);
  lab.context.allocator()->reset_peaks();
  const int64_t before = lab.context.allocator()->stats().total;
  linear_cross_entropy(tape, leaf, w, targets, {.gradient_scale = 1, .block_rows = block});
  const int64_t peak = lab.context.allocator()->stats().peak_total - before;
  EXPECT_LT(peak, 2 * block * vocab * 8);
}

// A logit in f32 takes four bytes, and its gradient in bf16 takes two bytes. A logit in bf16 and its gradient share two
// bytes.
TEST(CrossEntropyLoss, LogitsInBf16TakeAThirdOfTheMemoryOfABlock) {
  Lab lab;
  constexpr int64_t rows = 64, hidden = 2, vocab = 4096, block = 32;
  Parameter& w = lab.parameter({vocab, hidden}, Dtype::bf16);
  w.gradient();
  const Tensor x = lab.randn({rows, hidden}, Dtype::bf16), targets = lab.values(std::vector<int32_t>(rows, 3));
  const auto peak = [&](Dtype of_logits) {
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    const Value leaf = tape.leaf(x);
    lab.context.allocator()->reset_peaks();
    const int64_t before = lab.context.allocator()->stats().total;
    linear_cross_entropy(tape, leaf, w, targets, {.block_rows = block, .logits_dtype = of_logits});
    return static_cast<double>(lab.context.allocator()->stats().peak_total - before);
  };
  EXPECT_NEAR(peak(Dtype::f32) / peak(Dtype::bf16), 3, 0.05);
}

TEST(CrossEntropyLoss, ErrorsNameShapesAndOptions) {
  Lab lab;
  Parameter& w = lab.parameter({6, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto message = [&](Shape x, const std::vector<int32_t>& targets, int64_t block) -> std::string {
    try {
      linear_cross_entropy(tape, tape.leaf(lab.randn(x)), w, lab.values(targets), {.block_rows = block});
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({2, 4}, {1, 2}, 8),
            "[cross_entropy] x is [2, 4], p0 [6, 3], targets [2]; expected [T, D], [V, D] and [T]");
  EXPECT_EQ(message({2, 3}, {1}, 8),
            "[cross_entropy] x is [2, 3], p0 [6, 3], targets [1]; expected [T, D], [V, D] and [T]");
  EXPECT_EQ(message({2, 3}, {1, 2}, 0), "[cross_entropy] block_rows is 0; expected at least 1");
}

TEST(CrossEntropyLoss, ErrorNamesShapeAndDtypeOfTheBias) {
  Lab lab;
  Parameter &w = lab.parameter({6, 3}), &bias = lab.parameter({6}, Dtype::f32), &longer = lab.parameter({7});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto message = [&](Parameter& with) -> std::string {
    try {
      linear_cross_entropy(tape, tape.leaf(lab.randn({2, 3})), w, lab.values<int32_t>({1, 2}), {.bias = &with});
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(bias), "[cross_entropy] the bias is [6] f32, expected [6] f64");
  EXPECT_EQ(message(longer), "[cross_entropy] the bias is [7] f64, expected [6] f64");
}

}  // namespace
}  // namespace hexad::tests
