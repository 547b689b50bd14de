// Mistakes that gradcheck and the comparisons must detect, and correct gradients that gradcheck must accept.
#include "tests/support/gradcheck.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"

namespace hexad::tests {

using namespace autograd;
namespace {

using Inputs = const std::vector<Value>&;

// Returns the messages of all failures that `f` reports.
std::string failures_of(const std::function<void()>& f) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter intercept(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    f();
  }
  std::string all;
  for (int i = 0; i < results.size(); ++i) all += results.GetTestPartResult(i).message() + std::string("\n");
  return all;
}

void expect_says(const std::string& said, const std::string& expected) {
  EXPECT_NE(said.find(expected), std::string::npos) << expected << "\nis not in\n" << said;
}

// Returns y = 2 x with the given pullback.
Value doubled(Tape& t, const Value& x, Pullback pullback) {
  Tape forget(t.stream, t.policy(), Tape::Mode::forget);
  return t.record("doubled", scale(forget, {x.data, -1}, 2).data, {x}, {}, std::move(pullback));
}

Tensor times(const Tensor& t, double factor) {
  const Tensor out = copy_of(t);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<double>()[i] *= factor;
  return out;
}

std::string verdict(Lab& lab, Pullback pullback) {
  return failures_of([&] {
    gradcheck(lab, {lab.randn({2, 3})}, [&](Tape& t, Inputs x) { return doubled(t, x[0], pullback); });
  });
}

TEST(Gradcheck, AcceptsACorrectGradient) {
  Lab lab;
  EXPECT_EQ(verdict(lab, [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, times(dout, 2)); }), "");
}

TEST(Gradcheck, ReportsAWrongGradientWithCoordinateValuesAndCommand) {
  Lab lab;
  const std::string said =
      verdict(lab, [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, times(dout, 3)); });
  expect_says(said, "input 0 [2, 3] at [0, 0]: finite differences give ");
  expect_says(said, "repeat with --gtest_filter=Gradcheck.ReportsAWrongGradientWithCoordinateValuesAndCommand");
}

TEST(Gradcheck, ReportsAGradientWrongByOnePartInAHundredMillion) {
  Lab lab;
  expect_says(
      verdict(lab, [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, times(dout, 2 + 2e-8)); }),
      "the difference is");
}

TEST(Gradcheck, ReportsOneWrongElementAmongManyAlongRandomDirections) {
  Lab lab;
  const auto wrong = [](Backward& b, const Tensor& dout, const Saved&) {
    const Tensor dx = times(dout, 2);
    dx.data<double>()[123] += 0.1;
    b.accumulate(0, dx);
  };
  const Tensor x = lab.randn({20, 20});
  expect_says(failures_of([&] { gradcheck(lab, {x}, [&](Tape& t, Inputs in) { return doubled(t, in[0], wrong); }); }),
              "input 0 [20, 20] along direction 0");
}

TEST(Gradcheck, ReportsAMissingGradient) {
  Lab lab;
  expect_says(verdict(lab, [](Backward&, const Tensor&, const Saved&) {}), "input 0 got no gradient");
}

TEST(Gradcheck, ReportsAnUnwrittenElement) {
  Lab lab;
  expect_says(verdict(lab,
                      [](Backward& b, const Tensor& dout, const Saved&) {
                        const Tensor dx = Tensor::like(dout);  // the memory is poisoned
                        std::copy_n(times(dout, 2).data<double>(), 5, dx.data<double>());
                        b.accumulate(0, dx);
                      }),
              "at [1, 2]: finite differences give");
}

TEST(Gradcheck, RejectsMostlyZeroGradients) {
  Lab lab;
  expect_says(failures_of([&] {
                gradcheck(lab, {lab.randn({2, 3})}, [](Tape& t, Inputs x) { return scale(t, x[0], 0); });
              }),
              "input 0 is mistrusted: 6 of 6 gradients are zero; expected at most half, or Zeros::expected");
}

TEST(Gradcheck, ReportsAResultThatRecordingChanges) {
  Lab lab;
  expect_says(
      failures_of([&] {
        gradcheck(lab, {lab.randn({2, 3})}, [](Tape& t, Inputs x) { return scale(t, x[0], t.recording() ? 2 : 3); });
      }),
      "differs in its bits at [0, 0]");
}

// Checks y = x + sum(w), where `contribute` writes the gradient of w. Returns the failures.
std::string verdict_on_weights(Lab& lab, const std::function<void(Parameter&, double)>& contribute) {
  Parameter& w = lab.parameter({2});
  return failures_of([&] {
    gradcheck(lab, {lab.randn({4})}, [&](Tape& t, Inputs x) {
      const Tensor out = copy_of(x[0].data);
      for (int64_t i = 0; i < 4; ++i)
        out.data<double>()[i] += w.local().data<double>()[0] + w.local().data<double>()[1];
      return t.record("shift", out, {x[0]}, {},
                      [](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, dout); },
                      {{&w}, [&](Backward&, const Tensor& dout, const Saved&) {
                         double sum = 0;
                         for (double v : dout.to_vector<double>()) sum += v;
                         contribute(w, sum);
                       }});
    });
  });
}

TEST(Gradcheck, AcceptsAReplacingThenAddingWeightGradient) {
  Lab lab;
  EXPECT_EQ(verdict_on_weights(lab,
                               [&](Parameter& w, double sum) {
                                 const Tensor& g = w.gradient_to_add(lab.stream());
                                 g.data<double>()[0] += sum, g.data<double>()[1] += sum;
                               }),
            "");
}

TEST(Gradcheck, ReportsAWeightGradientAddedToStaleMemory) {
  Lab lab;
  expect_says(verdict_on_weights(lab,
                                 [](Parameter& w, double sum) {
                                   w.next_write();
                                   w.gradient().data<double>()[0] += sum, w.gradient().data<double>()[1] += sum;
                                 }),
              "nan; the difference is");
}

TEST(Gradcheck, ReportsAnOverwrittenWeightGradient) {
  Lab lab;
  expect_says(verdict_on_weights(lab,
                                 [](Parameter& w, double sum) {
                                   w.next_write();
                                   w.gradient().data<double>()[0] = w.gradient().data<double>()[1] = sum;
                                 }),
              "[2] f64: 2 of 2 elements differ; first at [0]");
}

TEST(Gradcheck, ReportsAMissingWeightGradient) {
  Lab lab;
  expect_says(verdict_on_weights(lab, [](Parameter&, double) {}), "p0 got no gradient");
}

TEST(Gradcheck, PrintsItsSeed) {
  Lab lab(4711);
  expect_says(verdict(lab, [](Backward&, const Tensor&, const Saved&) {}), "seed 4711");
}

TEST(Compare, NamesTheCoordinateAndBothValues) {
  Lab lab;
  const Tensor a = lab.integers({2, 3}, 1, 5), b = copy_of(a);
  EXPECT_EQ(difference(a, b, 0), "");
  EXPECT_EQ(bitwise_difference(a, b), "");
  a.data<double>()[4] = 2, b.data<double>()[4] = 2.5;
  expect_says(difference(a, b, 1e-3), "1 of 6 elements differ; first at [1, 1]: expected 2, got 2.5");
  EXPECT_EQ(bitwise_difference(a, b), "[2, 3] f64 differs in its bits at [1, 1]: expected 2, got 2.5");
  EXPECT_EQ(difference(a, b, 0.5), "");
}

TEST(Compare, ReadsStridedTensors) {
  Lab lab;
  const Tensor a = lab.randn({4, 6}), part = a.slice(1, 2, 5);
  EXPECT_EQ(values_of(part)[4], a.data<double>()[6 + 3]);
  EXPECT_EQ(bitwise_difference(part, part), "");
}

TEST(Compare, DetectsNaNZeroSignsShapesAndMissingTensors) {
  Lab lab;
  const Tensor a = lab.randn({4}), nan = copy_of(a), minus = lab.values<double>({-0.0}),
               plus = lab.values<double>({0.0});
  nan.data<double>()[2] = std::nan("");
  expect_says(difference(a, nan, 1), "got nan");
  expect_says(difference(nan, nan, 1), "got nan");
  EXPECT_EQ(bitwise_difference(nan, nan), "") << "NaNs with equal bits are equal";
  expect_says(bitwise_difference(minus, plus), "differs in its bits");
  EXPECT_EQ(difference(a, lab.randn({2, 2}), 1), "expected [4] f64, got [2, 2] f64");
  EXPECT_EQ(difference(a, {}, 1), "got no tensor");
  EXPECT_EQ(difference({}, a, 1), "expected no tensor");
}

TEST(Compare, RejectsAMostlyZeroResult) {
  Lab lab;
  const Tensor zeros = Tensor::zeros({2, 4}, Dtype::f64, lab.context);
  EXPECT_EQ(difference(zeros, zeros, 1),
            "[2, 4] is mistrusted: 8 of 8 elements are zero; expected at most half, or Zeros::expected");
  EXPECT_EQ(bitwise_difference(zeros, zeros),
            "[2, 4] is mistrusted: 8 of 8 elements are zero; expected at most half, or Zeros::expected");
  EXPECT_EQ(bitwise_difference(zeros, zeros, Zeros::expected), "");
  EXPECT_EQ(failures_of([&] { expect_zeros(zeros); }), "");
  zeros.data<double>()[5] = 1;
  expect_says(failures_of([&] { expect_zeros(zeros); }), "[2, 4] at [1, 1]: expected 0, got 1");
}

}  // namespace
}  // namespace hexad::tests
