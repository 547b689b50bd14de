#include "tools/plan/curves/least_squares.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "framework/base/tolerance.h"

namespace hexad::plan {
namespace {

using Points = std::vector<config::Curve::Point>;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(LeastSquares, FindsTheCoefficientsOfASum) {
  // y = 3 - 2 x + 0.5 x^2 at sizes that span six decades. The norms of the columns differ by a factor of up to 1e12.
  std::vector<double> x, square, y;
  for (double v = 1; v <= 1e6; v *= 10) x.push_back(v), square.push_back(v * v), y.push_back(3 - 2 * v + 0.5 * v * v);
  const FitTerm terms[] = {{"one", std::vector<double>(x.size(), 1)}, {"x", x}, {"x^2", square}};
  const TermsFit fit = least_squares(terms, y);
  const double rounding = base::tolerance(base::Dtype::f64, 8);
  EXPECT_NEAR(fit.coefficients[0], 3, 3 * 1e12 * rounding);  // the other terms are up to 1e12 times as large
  EXPECT_NEAR(fit.coefficients[1], -2, 2 * 1e6 * rounding);
  EXPECT_NEAR(fit.coefficients[2], 0.5, 0.5 * rounding);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(fit.residuals[i], 0, y.back() * rounding);
}

// Normal equations fail here, because their matrix has the squared condition number, 1e16.
TEST(LeastSquares, DistinguishesNearlyEqualTerms) {
  const double step = 1e-8;
  const FitTerm terms[] = {{"a", {1, 1, 1}}, {"b", {1, 1 + step, 1 + 2 * step}}};
  const double y[] = {5, 5 + 3 * step, 5 + 6 * step};  // 2 a + 3 b
  const TermsFit fit = least_squares(terms, y);
  EXPECT_NEAR(fit.coefficients[0], 2, base::tolerance(base::Dtype::f64, 3) / step * 5);
  EXPECT_NEAR(fit.coefficients[1], 3, base::tolerance(base::Dtype::f64, 3) / step * 5);
}

TEST(LeastSquares, ResidualsArePerpendicularToEveryTerm) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  FitTerm a{"a", {}}, b{"b", {}};
  std::vector<double> y;
  for (int i = 0; i < 25; ++i)
    a.values.push_back(normal(random)), b.values.push_back(normal(random)), y.push_back(normal(random));
  const FitTerm terms[] = {a, b};
  const TermsFit fit = least_squares(terms, y);
  double squares = 0;
  for (const double r : fit.residuals) squares += r * r;
  EXPECT_GT(squares, 1) << "noise leaves large residuals";
  for (const FitTerm& term : terms) {
    double product = 0;
    for (size_t i = 0; i < y.size(); ++i) product += term.values[i] * fit.residuals[i];
    EXPECT_NEAR(product, 0, 25 * base::tolerance(base::Dtype::f64, 25)) << term.name;
  }
}

TEST(LeastSquares, NamesAnUndeterminedTerm) {
  const FitTerm bytes{"bytes", {1, 2, 3, 4}}, messages{"messages", {1, 0, 2, 5}}, both{"both", {2, 2, 5, 9}},
      none{"none", {0, 0, 0, 0}};
  const double y[] = {1, 2, 3, 4};
  const FitTerm sum[] = {bytes, messages, both};
  EXPECT_EQ(error_of([&] { least_squares(sum, y); }),
            "[least_squares] 4 samples do not distinguish 'both' from 'bytes', 'messages'; expected samples with "
            "linearly independent terms");
  const FitTerm zero[] = {bytes, none};
  EXPECT_EQ(error_of([&] { least_squares(zero, y); }),
            "[least_squares] 4 samples do not distinguish 'none' from 'bytes'; expected samples with linearly "
            "independent terms");
  const FitTerm nothing[] = {none};
  EXPECT_EQ(error_of([&] { least_squares(nothing, y); }),
            "[least_squares] 4 samples do not distinguish 'none' from zero; expected samples with linearly independent "
            "terms");
  const FitTerm more[] = {{"a", {1}}, {"b", {2}}};
  EXPECT_EQ(
      error_of([&] { least_squares(more, std::span(y, 1)); }),
      "[least_squares] 1 samples do not distinguish 'b' from 'a'; expected samples with linearly independent terms");
}

TEST(LeastSquares, RefusesMismatchedAndNonFiniteSamples) {
  const FitTerm terms[] = {{"bytes", {1, 2}}};
  const double three[] = {1, 2, 3}, nan[] = {1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(error_of([&] { least_squares(terms, three); }),
            "[least_squares] 'bytes' has 2 values; expected 3, one for each sample");
  EXPECT_EQ(error_of([&] { least_squares(terms, nan); }),
            "[least_squares] a sample is infinite or NaN; expected finite samples");
  const FitTerm infinite[] = {{"bytes", {1, std::numeric_limits<double>::infinity()}}};
  EXPECT_EQ(error_of([&] { least_squares(infinite, std::span(three, 2)); }),
            "[least_squares] 'bytes' has infinite or NaN values; expected finite values");
}

TEST(FitAlphaBeta, FindsTheLineThroughTheSamples) {
  // Parm's AllGather on 32 GPUs, over sizes that span five decades.
  const AlphaBeta line{1.09e-4, 7.14e-10};
  Points samples;
  for (double x = 1e3; x <= 1e8; x *= 10) samples.push_back({x, line(x)});
  const Fit fit = fit_alpha_beta(samples);
  const double rounding = 1e4 * base::tolerance(base::Dtype::f64, 8);  // the largest sample is about 660 times alpha
  EXPECT_NEAR(fit.line.alpha, line.alpha, rounding * line.alpha);
  EXPECT_NEAR(fit.line.beta, line.beta, rounding * line.beta);
  EXPECT_LT(fit.worst_relative_error, rounding);
}

TEST(FitAlphaBeta, NeighbouringLinesAreFartherFromTheSamples) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> noise(-0.1, 0.1);
  Points samples;
  for (int i = 1; i <= 40; ++i) samples.push_back({static_cast<double>(i), 2 + 0.5 * i + noise(random)});
  const auto squares = [&](const AlphaBeta& line) {
    double sum = 0;
    for (const auto& [x, y] : samples) sum += (line(x) - y) * (line(x) - y);
    return sum;
  };
  const AlphaBeta best = fit_alpha_beta(samples).line;
  for (const double step : {-1e-3, 1e-3}) {
    EXPECT_LT(squares(best), squares({best.alpha + step, best.beta}));
    EXPECT_LT(squares(best), squares({best.alpha, best.beta + step}));
  }
}

TEST(FitAlphaBeta, NamesTheWorstSample) {
  const Points samples{{0, 1}, {1, 1}, {2, 4}};  // the fit is 0.5 + 1.5 x
  const Fit fit = fit_alpha_beta(samples);
  const double rounding = 4 * base::tolerance(base::Dtype::f64, 3);
  EXPECT_NEAR(fit.line.alpha, 0.5, rounding);
  EXPECT_NEAR(fit.line.beta, 1.5, rounding);
  ASSERT_EQ(fit.residuals.size(), 3u);
  EXPECT_NEAR(fit.residuals[0], 0.5, rounding);
  EXPECT_NEAR(fit.residuals[1], -1, rounding);
  EXPECT_NEAR(fit.residuals[2], 0.5, rounding);
  EXPECT_NEAR(fit.worst_relative_error, 1, rounding);  // at x = 1, the line gives 2 instead of 1
  EXPECT_EQ(fit.worst, 1u);
}

TEST(FitAlphaBeta, RelativeResidualsLetEverySizeCount) {
  // Times of a link with a latency of 50 us and a bandwidth of 1 GB/s. The largest message takes twice the time of this
  // link, like a message in shared memory that exceeds the cache.
  Points samples;
  for (double x = 4096; x <= 1 << 24; x *= 4) samples.push_back({x, 5e-5 + x / 1e9});
  samples.back().y *= 2;
  const Fit plain = fit_alpha_beta(samples), relative = fit_alpha_beta(samples, Least::relative_residuals);
  EXPECT_LT(plain.line.alpha, 0) << "the largest sample dominates a plain fit";
  EXPECT_EQ(plain.worst, 0u);
  EXPECT_NEAR(relative.line.alpha, 5e-5, 1e-5);
  EXPECT_EQ(relative.worst, samples.size() - 1);
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(relative.residuals[i], samples[i].y - relative.line(samples[i].x)) << "residuals are in seconds";
  EXPECT_EQ(error_of([] {
              fit_alpha_beta(Points{{1, 0}, {2, 1}}, Least::relative_residuals);
            }),
            "[fit_alpha_beta] the time for size 1 is 0 seconds, expected more than 0");
}

TEST(FitAlphaBeta, NeedsTwoSizes) {
  EXPECT_EQ(error_of([] {
              fit_alpha_beta(Points{{3, 1}, {3, 2}});
            }),
            "[least_squares] 2 samples do not distinguish 'seconds per unit' from 'seconds to start'; expected samples "
            "with linearly independent terms");
  EXPECT_THROW(fit_alpha_beta(Points{}), std::logic_error);
}

}  // namespace
}  // namespace hexad::plan
