#include "tools/plan/least_squares.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/tolerance.h"

namespace hexad::plan {
namespace {

using Points = std::vector<config::Curve::Point>;

TEST(FitAlphaBeta, FindsTheLineThatSamplesLieOn) {
  // Parm's AllGather on 32 GPUs, over sizes that span five decades.
  const AlphaBeta line{1.09e-4, 7.14e-10};
  Points samples;
  for (double x = 1e3; x <= 1e8; x *= 10) samples.push_back({x, line(x)});
  const Fit fit = fit_alpha_beta(samples);
  const double rounding = 1e4 * tests::tolerance(base::Dtype::f64, 8);  // the largest sample is 700 times alpha
  EXPECT_NEAR(fit.line.alpha, line.alpha, rounding * line.alpha);
  EXPECT_NEAR(fit.line.beta, line.beta, rounding * line.beta);
  EXPECT_LT(fit.worst_relative_error, rounding);
}

TEST(FitAlphaBeta, NoOtherLineIsNearer) {
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

TEST(FitAlphaBeta, TellsTheWorstSample) {
  const Points samples{{0, 1}, {1, 1}, {2, 4}};  // fitted: 0.5 + 1.5 x
  const Fit fit = fit_alpha_beta(samples);
  EXPECT_DOUBLE_EQ(fit.line.alpha, 0.5);
  EXPECT_DOUBLE_EQ(fit.line.beta, 1.5);
  EXPECT_DOUBLE_EQ(fit.worst_relative_error, 1);  // 2 for 1
}

TEST(FitAlphaBeta, NeedsTwoSizes) {
  EXPECT_THROW(fit_alpha_beta(Points{{3, 1}, {3, 2}}), std::logic_error);
  EXPECT_THROW(fit_alpha_beta(Points{}), std::logic_error);
}

}  // namespace
}  // namespace hexad::plan
