// Output head and its loss with the vocabulary split over ranks.
#include <cmath>

#include "parallel/tp/split_vocabulary.h"
#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

constexpr int64_t rows = 11, hidden = 5;
constexpr double scale = 0.25;

// Returns targets at the ends of the ranks' parts and inside the parts, and -1 for ignored rows.
std::vector<int32_t> some_targets(int64_t vocabulary) {
  const auto at = [&](int64_t numerator, int64_t denominator) {
    return static_cast<int32_t>(vocabulary * numerator / denominator);
  };
  return {0, at(1, 2) - 1, at(1, 2), at(1, 3) - 1, at(2, 3), -1, at(3, 4), at(1, 5), -1, at(1, 1) - 1, at(1, 1) - 1};
}

struct Outcome {
  Tensor loss, row_losses, dx, dw;
};

using Loss = std::function<Value(Tape&, const Value&, Parameter&, const Tensor&, const CrossEntropyOptions&, Tensor*)>;

Loss split(const ProcessGroup& group) {
  return [&group](Tape& t, const Value& x, Parameter& w, const Tensor& targets, const CrossEntropyOptions& o,
                  Tensor* row_losses) { return tp::vocab_cross_entropy(t, x, w, targets, group, o, row_losses); };
}

Outcome run(Lab& lab, const Loss& f, Parameter& w, const Tensor& x, const std::vector<int32_t>& targets,
            const CrossEntropyOptions& options, Replay::Weights weights = Replay::Weights::at_once) {
  Trial trial(lab);
  w.clear_gradient();
  const Value leaf = trial.tape.leaf(x);
  Tensor row_losses;
  const Value loss = f(trial.tape, leaf, w, lab.values(targets), options, &row_losses);
  const Tensor gradient = Tensor::empty({1}, loss.data.dtype(), lab.context);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), gradient, options.gradient_scale);
  const Tensor dx = trial.gradient_of(leaf, {{loss, gradient}}, weights);
  return {loss.data, row_losses, dx, copy_of(w.gradient_to_add(lab.stream()))};
}

Outcome alone(Lab& lab, Parameter& w, const Tensor& x, const std::vector<int32_t>& targets,
              const CrossEntropyOptions& options) {
  return run(lab, linear_cross_entropy, w, x, targets, options);
}

void expect_agrees(const Outcome& expected, const Outcome& actual, const Parameter& piece, double allowed) {
  expect_close(expected.loss, actual.loss, allowed);
  expect_close(expected.row_losses, actual.row_losses, allowed);
  expect_close(expected.dx, actual.dx, allowed);
  expect_close(TpLab::part_of(expected.dw, piece), actual.dw, allowed);
}

class VocabCrossEntropy : public testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  static int64_t vocabulary() { return std::get<1>(GetParam()); }
  template <class F>
  static void on_ranks(F&& f) {
    on_late_ranks(std::get<0>(GetParam()), f);
  }
};

TEST_P(VocabCrossEntropy, LossAndGradientsMatchOneRankForSeveralBlockSizes) {
  on_ranks([](TpLab& lab) {
    Parameter& whole = lab.parameter({vocabulary(), hidden});
    Parameter& piece = lab.piece(whole, 0);
    const Tensor x = lab.randn({rows, hidden});
    const auto targets = some_targets(vocabulary());
    const Outcome expected = alone(lab, whole, x, targets, {.gradient_scale = scale});
    for (const int64_t block : {1, 3, 11, 256}) {
      SCOPED_TRACE(cat("block_rows ", block));
      const Outcome actual =
          run(lab, split(lab.group), piece, x, targets, {.gradient_scale = scale, .block_rows = block});
      expect_agrees(expected, actual, piece, tolerance(Dtype::f64, vocabulary() * hidden));
      expect_zeros(actual.dx.slice(0, 5, 6));  // ignored row
    }
  });
}

TEST_P(VocabCrossEntropy, GradientOfTheBiasMatchesOneRank) {
  on_ranks([](TpLab& lab) {
    Parameter &whole = lab.parameter({vocabulary(), hidden}), &bias = lab.parameter({vocabulary()});
    Parameter &piece = lab.piece(whole, 0), &bias_piece = lab.piece(bias, 0);
    const Tensor x = lab.randn({rows, hidden});
    const auto targets = some_targets(vocabulary());
    const double allowed = tolerance(Dtype::f64, vocabulary() * hidden);
    const Outcome expected = alone(lab, whole, x, targets, {.gradient_scale = scale, .bias = &bias});
    const Outcome without = alone(lab, whole, x, targets, {.gradient_scale = scale});
    EXPECT_GT(std::abs(values_of(expected.loss)[0] - values_of(without.loss)[0]), 1e-3);
    for (const int64_t block : {1, 3, 256}) {
      bias_piece.clear_gradient();
      const CrossEntropyOptions options{.gradient_scale = scale, .block_rows = block, .bias = &bias_piece};
      expect_agrees(expected, run(lab, split(lab.group), piece, x, targets, options), piece, allowed);
      expect_close(TpLab::part_of(bias.gradient_to_add(lab.stream()), bias_piece),
                   bias_piece.gradient_to_add(lab.stream()), allowed);
    }
  });
}

// Replicated layers receive these gradients. The ranks would diverge if the gradients differed in a bit.
TEST_P(VocabCrossEntropy, AllRanksAreBitwiseIdentical) {
  on_ranks([](TpLab& lab) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      SCOPED_TRACE(cat(dtype));
      Parameter& piece = lab.piece(lab.parameter({vocabulary(), hidden}, dtype), 0);
      const Outcome mine =
          run(lab, split(lab.group), piece, lab.randn({rows, hidden}, dtype), some_targets(vocabulary()),
              {.gradient_scale = scale, .block_rows = 4, .logits_dtype = dtype});
      for (const Tensor& t : {mine.loss, mine.row_losses, mine.dx}) {
        const Tensor first = copy_of(t);
        lab.group.broadcast(first, 0, lab.stream()).wait();
        expect_bitwise(first, t);
      }
    }
  });
}

TEST_P(VocabCrossEntropy, DelayedWeightGradientsAreBitwiseIdentical) {
  on_ranks([](TpLab& lab) {
    Parameter& piece = lab.piece(lab.parameter({vocabulary(), hidden}), 0);
    const Tensor x = lab.randn({rows, hidden});
    const auto at = [&](Replay::Weights weights) {
      return run(lab, split(lab.group), piece, x, some_targets(vocabulary()),
                 {.gradient_scale = scale, .block_rows = 4}, weights);
    };
    const Outcome now = at(Replay::Weights::at_once), later = at(Replay::Weights::delayed);
    expect_bitwise(now.dx, later.dx);
    expect_bitwise(now.dw, later.dw);
  });
}

// Every row's loss is log V, where V is the size of the whole vocabulary. The loss does not depend on the number of
// ranks.
TEST_P(VocabCrossEntropy, IsTheLogarithmOfTheVocabularyForEqualLogits) {
  on_ranks([](TpLab& lab) {
    Parameter& whole = lab.parameter({vocabulary(), hidden});
    kernels::kernels(lab.context).pointwise.fill(lab.stream(), whole.local(), 0);
    const Outcome got =
        run(lab, split(lab.group), lab.piece(whole, 0), lab.randn({2, hidden}), {0, 1}, {.gradient_scale = scale});
    for (const double loss : values_of(got.row_losses))
      EXPECT_NEAR(loss, std::log(static_cast<double>(vocabulary())), tolerance(Dtype::f64, vocabulary()) * 10);
  });
}

TEST_P(VocabCrossEntropy, MatchesOneRankForHugeLogits) {
  on_ranks([](TpLab& lab) {
    Parameter& whole = lab.parameter({vocabulary(), hidden});
    Parameter& piece = lab.piece(whole, 0);
    const Tensor x = lab.randn({rows, hidden});
    kernels::kernels(lab.context).pointwise.scale(lab.stream(), x, 1e4);
    const auto targets = some_targets(vocabulary());
    const Outcome expected = alone(lab, whole, x, targets, {.gradient_scale = scale});
    const Outcome actual = run(lab, split(lab.group), piece, x, targets, {.gradient_scale = scale});
    EXPECT_TRUE(std::isfinite(values_of(actual.loss)[0]));
    const double allowed = tolerance(Dtype::f64, vocabulary() * hidden);
    expect_close(expected.row_losses, actual.row_losses, allowed);
    // One column has all of the probability, so the softmax is zeros and ones, up to the rounding of large logits.
    expect_close(expected.dx, actual.dx, 1e4 * allowed, Zeros::expected);
  });
}

TEST_P(VocabCrossEntropy, SingleAndHalfPrecisionAgreeWithOneRank) {
  on_ranks([](TpLab& lab) {
    struct Precision {
      Dtype dtype, logits;
    };
    for (const auto& [dtype, of_logits] :
         {Precision{Dtype::f32, Dtype::f32}, Precision{Dtype::bf16, Dtype::f32}, Precision{Dtype::bf16, Dtype::bf16}}) {
      SCOPED_TRACE(cat(dtype, ", logits in ", of_logits));
      Parameter& whole = lab.parameter({vocabulary(), hidden}, dtype);
      Parameter& piece = lab.piece(whole, 0);
      const Tensor x = lab.randn({rows, hidden}, dtype);
      const auto targets = some_targets(vocabulary());
      const CrossEntropyOptions options{.gradient_scale = scale, .block_rows = 4, .logits_dtype = of_logits};
      const Outcome expected = alone(lab, whole, x, targets, options);
      const Outcome actual = run(lab, split(lab.group), piece, x, targets, options);
      EXPECT_EQ(actual.loss.dtype(), Dtype::f32);
      EXPECT_EQ(actual.dx.dtype(), dtype);
      expect_close(expected.row_losses, actual.row_losses, tolerance(of_logits, vocabulary() * hidden));
      expect_close(expected.dx, actual.dx, tolerance(dtype, vocabulary() * hidden));
      expect_close(TpLab::part_of(expected.dw, piece), actual.dw, tolerance(dtype, vocabulary() * hidden));
    }
  });
}

TEST_P(VocabCrossEntropy, NaNReachesEveryRank) {
  on_ranks([](TpLab& lab) {
    Parameter& whole = lab.parameter({vocabulary(), hidden});
    // The NaN is in a weight of rank 0.
    change<double>(whole.local(), [](std::span<double> values) { values[0] = std::nan(""); });
    const Outcome got = run(lab, split(lab.group), lab.piece(whole, 0), lab.randn({rows, hidden}),
                            some_targets(vocabulary()), {.gradient_scale = scale});
    EXPECT_TRUE(std::isnan(values_of(got.loss)[0]));
  });
}

TEST_P(VocabCrossEntropy, IgnoredRowsMayBeNaN) {
  on_ranks([](TpLab& lab) {
    Parameter& piece = lab.piece(lab.parameter({vocabulary(), hidden}), 0);
    const Tensor x = lab.randn({3, hidden});
    change<double>(x, [](std::span<double> values) { values[hidden] = std::nan(""); });
    const Outcome got = run(lab, split(lab.group), piece, x, {2, -1, 0}, {.gradient_scale = 0.5, .block_rows = 2});
    EXPECT_TRUE(std::isfinite(values_of(got.loss)[0]));
    expect_zeros(got.dx.slice(0, 1, 2));
  });
}

TEST_P(VocabCrossEntropy, NoTargetsRowsOrScaleGiveZeroGradients) {
  on_ranks([](TpLab& lab) {
    Parameter& piece = lab.piece(lab.parameter({vocabulary(), hidden}), 0);
    const Tensor x = lab.randn({3, hidden});
    const Outcome unscaled = run(lab, split(lab.group), piece, x, {1, 0, 4}, {.gradient_scale = 0, .block_rows = 2});
    EXPECT_GT(values_of(unscaled.loss)[0], 0);
    const Outcome ignored =
        run(lab, split(lab.group), piece, x, {-1, -1, -1}, {.gradient_scale = scale, .block_rows = 2});
    const Outcome no_rows = run(lab, split(lab.group), piece, lab.randn({0, hidden}), {}, {.gradient_scale = scale});
    for (const Outcome* o : {&ignored, &no_rows}) expect_zeros(o->loss);
    for (const Outcome* o : {&unscaled, &ignored, &no_rows}) expect_zeros(o->dx), expect_zeros(o->dw);
  });
}

TEST_P(VocabCrossEntropy, EvaluationDoesNotChangeGradients) {
  on_ranks([](TpLab& lab) {
    Parameter& whole = lab.parameter({vocabulary(), hidden});
    Parameter& piece = lab.piece(whole, 0);
    const Tensor x = lab.randn({rows, hidden});
    const auto targets = some_targets(vocabulary());
    Trial trial(lab, Tape::Mode::forget);
    const Value loss =
        tp::vocab_cross_entropy(trial.tape, trial.tape.leaf(x), piece, lab.values(targets), lab.group, {});
    EXPECT_FALSE(piece.has_gradient());
    expect_close(alone(lab, whole, x, targets, {}).loss, loss.data, tolerance(Dtype::f64, vocabulary() * hidden));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, VocabCrossEntropy, testing::Combine(testing::Values(2, 3, 4), testing::Values(31, 509)),
                         [](const auto& test) {
                           return cat(std::get<0>(test.param), "_of_", std::get<1>(test.param));
                         });

TEST(VocabCrossEntropyOfOneRank, EqualsThePlainLoss) {
  const comm::SelfGroup self;
  TpLab lab(self);
  Parameter& w = lab.parameter({31, hidden});
  const Tensor x = lab.randn({rows, hidden});
  const CrossEntropyOptions options{.gradient_scale = scale, .block_rows = 4};
  const Outcome expected = alone(lab, w, x, some_targets(31), options);
  const Outcome actual = run(lab, split(self), w, x, some_targets(31), options);
  expect_bitwise(expected.loss, actual.loss);
  expect_bitwise(expected.dx, actual.dx);
  expect_bitwise(expected.dw, actual.dw);
}

TEST(VocabCrossEntropyMemory, IsBelowThreeBlocksOfThisRanksColumns) {
  comm::with_ranks(4, [](const ProcessGroup& group) {
    constexpr int64_t many = 64, narrow = 2, wide = 1000, block = 8;
    TpLab lab(group);
    Parameter& piece = lab.piece(lab.parameter({wide, narrow}), 0);
    piece.gradient();
    const Tensor x = lab.randn({many, narrow}), targets = lab.values(std::vector<int32_t>(many, 3));
    Trial trial(lab);
    const Value leaf = trial.tape.leaf(x);
    lab.context.allocator()->reset_peaks();
    const int64_t before = lab.context.allocator()->stats().total;
    tp::vocab_cross_entropy(trial.tape, leaf, piece, targets, group, {.block_rows = block});
    const int64_t peak = lab.context.allocator()->stats().peak_total - before;
    EXPECT_LT(peak, 3 * block * wide / 4 * 8);
  });
}

TEST(VocabCrossEntropyErrors, NameShapesTargetsAndOptions) {
  if (test_device() != device::DeviceKind::cpu) GTEST_SKIP() << "targets on a device are not checked";
  comm::with_ranks(2, [](const ProcessGroup& group) {
    TpLab lab(group);
    Parameter& piece = lab.piece(lab.parameter({6, 3}), 0);
    Trial trial(lab);
    const auto message = [&](const Shape& x, const std::vector<int32_t>& targets, int64_t block) {
      return error_of([&] {
        tp::vocab_cross_entropy(trial.tape, trial.tape.leaf(lab.randn(x)), piece, lab.values(targets), group,
                                {.block_rows = block});
      });
    };
    EXPECT_EQ(message({2, 4}, {1, 2}, 8),
              "[vocab_cross_entropy] x is [2, 4], p0.copy1 [3, 3], targets [2]; expected [T, D], [V, D] and [T]");
    EXPECT_EQ(message({2, 3}, {1}, 8),
              "[vocab_cross_entropy] x is [2, 3], p0.copy1 [3, 3], targets [1]; expected [T, D], [V, D] and [T]");
    EXPECT_EQ(message({2, 3}, {1, 2}, 0), "[vocab_cross_entropy] block_rows is 0, expected at least 1");
    EXPECT_EQ(message({2, 3}, {1, 6}, 8), "[vocab_cross_entropy] targets[1] is 6; expected -1 .. 5");
    const Value loss = tp::vocab_cross_entropy(trial.tape, trial.tape.leaf(lab.randn({2, 3})), piece,
                                               lab.values<int32_t>({1, 2}), group, {.gradient_scale = 0.25});
    EXPECT_EQ(error_of([&] { backward(trial.tape, loss, lab.values<double>({0.5})); }),
              "[vocab_cross_entropy] the gradient of the loss is 0.5; expected gradient_scale, which is 0.25");
  });
}

}  // namespace
}  // namespace hexad::tests
