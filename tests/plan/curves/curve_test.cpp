#include "tools/plan/curves/measured_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/base/tolerance.h"
#include "tools/plan/curves/least_squares.h"

namespace hexad::plan {
namespace {

const double rounding = base::tolerance(base::Dtype::f64, 16);

using Points = std::vector<config::Curve::Point>;

TEST(Efficiency, IsExactForALinkWithLatencyAndRate) {
  // A link with a latency of 50 us reaches its theoretical rate of 1 GB/s. Its efficiency is V/(V + 50 KB) for V bytes.
  const auto of = [](double volume) { return volume / (volume + 5e4); };
  const config::Curve measured = Points{{1e4, of(1e4)}, {1e5, of(1e5)}, {1e7, of(1e7)}};
  for (const double volume : {1e4, 3e4, 1e5, 2e6, 1e7})
    EXPECT_NEAR(efficiency(measured, volume), of(volume), rounding) << volume;
}

TEST(Efficiency, IsBoundedByTheSmallestTimeAndTheLargestEfficiency) {
  const config::Curve measured = Points{{100, 0.2}, {1000, 0.5}};
  for (const double volume : {1.0, 50.0, 100.0})
    EXPECT_NEAR(volume / efficiency(measured, volume), 100 / 0.2, 500 * rounding) << volume;
  EXPECT_EQ(efficiency(measured, 1e9), 0.5);
  EXPECT_EQ(efficiency(0.75, 1e-9), 0.75);
}

TEST(Speed, IsLinearBetweenPoints) {
  const config::Curve measured = Points{{100, 10}, {300, 20}};
  EXPECT_NEAR(speed(measured, 150), 12.5, 13 * rounding);
  EXPECT_EQ(speed(measured, 900), 20);
  EXPECT_NEAR(50 / speed(measured, 50), 10, 10 * rounding);
  EXPECT_EQ(speed(7, 1), 7);
}

TEST(Seconds, ContinueAlongTheLastSegmentAndNeverDecrease) {
  const config::Curve measured = Points{{10, 1}, {20, 3}};
  EXPECT_EQ(seconds(measured, 1), 1);
  EXPECT_NEAR(seconds(measured, 15), 2, 2 * rounding);
  EXPECT_NEAR(seconds(measured, 40), 7, 7 * rounding);
  EXPECT_EQ(seconds(Points{{10, 3}, {20, 1}}, 40), 1);
  EXPECT_EQ(seconds(0.5, 40), 0.5);
}

// Tests the fit that a table of `hexad profile` shows.
TEST(FitOfACurve, IsExactForALinkWithLatencyAndRate) {
  Points times;
  for (double bytes = 4096; bytes <= 1 << 24; bytes *= 2) times.push_back({bytes, 5e-5 + bytes / 1e9});
  const Fit fit = fit_alpha_beta(times);
  EXPECT_NEAR(fit.line.alpha, 5e-5, times.back().y * rounding);
  EXPECT_NEAR(1 / fit.line.beta, 1e9, 1e9 * rounding);
  for (const double left : fit.residuals) EXPECT_NEAR(left, 0, times.back().y * rounding);
}

TEST(FitOfACurve, ShowsTheErrorOfALineForABurst) {
  // A shaper passes 128 KiB immediately, and the rest at 25 MB/s. No straight line fits these times.
  Points times;
  for (double bytes = 16384; bytes <= 1 << 20; bytes *= 2)
    times.push_back({bytes, 1e-4 + std::max(0.0, bytes - 131072) / 25e6});
  const Fit fit = fit_alpha_beta(times);
  EXPECT_GT(fit.worst_relative_error, 5);
  EXPECT_LE(times[fit.worst].x, 131072) << "the largest error of the line is in the burst";
  EXPECT_NEAR(seconds(times, 65536), 1e-4, rounding) << "the curve follows the measured points";
}

TEST(Link, PricesMovedBytesByTheEfficiencyOfTheWholeVolume) {
  const Link link{100, Points{{100, 0.25}, {1000, 0.5}}};
  EXPECT_NEAR(link.seconds(500, 1000), 10, 10 * rounding);
  EXPECT_EQ(link.seconds(0, 1000), 0);
}

}  // namespace
}  // namespace hexad::plan
