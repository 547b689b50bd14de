#include "tools/scale/measurement.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hexad::scale {
namespace {

using telemetry::StepMetrics;

StepMetrics step_of(int64_t number, double seconds) {
  StepMetrics s;
  s.step = number;
  s.loss = 3;
  s.step_seconds = seconds;
  s.tokens_per_second = 100 / seconds;
  s.model_flops_per_second = 1000 / seconds;
  s.memory_peak_bytes = {{"total", 10 * number}};
  s.comm["ep"] = {.bytes = 8, .seconds = seconds / 2, .exposed_seconds = seconds / 4};
  s.comm["dp"] = {.bytes = 8, .seconds = seconds / 4, .exposed_seconds = seconds / 8};
  return s;
}

TEST(ScaleMeasurement, PartsAddUpToTheStep) {
  StepMetrics step = step_of(1, 8);
  step.ranks.emplace();
  step.ranks->own_seconds = {.least = 4, .median = 4, .most = 6};  // two ranks, whose mean is 5
  const StepParts parts = parts_of(step);
  EXPECT_DOUBLE_EQ(parts.work, 5);
  EXPECT_DOUBLE_EQ(parts.imbalance, 1);
  EXPECT_DOUBLE_EQ(parts.waiting.at("ep"), 2 * 2.0 / 3);
  EXPECT_DOUBLE_EQ(parts.waiting.at("dp"), 2 * 1.0 / 3);
  EXPECT_DOUBLE_EQ(parts.total(), 8);
}

TEST(ScaleMeasurement, WaitingIsNoLongerThanTheStep) {
  StepMetrics step = step_of(1, 1);
  step.comm["ep"].exposed_seconds = 3;
  step.comm["dp"].exposed_seconds = 1;
  const StepParts parts = parts_of(step);
  EXPECT_DOUBLE_EQ(parts.work, 0);
  EXPECT_DOUBLE_EQ(parts.waiting.at("ep"), 0.75);
  EXPECT_DOUBLE_EQ(parts.total(), 1);
}

TEST(ScaleMeasurement, ImbalanceIsNoLongerThanTheWaiting) {
  StepMetrics step = step_of(1, 8);
  step.ranks.emplace();
  step.ranks->own_seconds = {.least = 1, .median = 1, .most = 8};
  EXPECT_DOUBLE_EQ(parts_of(step).imbalance, 3);
  EXPECT_DOUBLE_EQ(parts_of(step).total(), 8);
}

TEST(ScaleMeasurement, TimesExcludeTheWarmUp) {
  const PointMeasurement m = measurement_of({{step_of(1, 100), step_of(2, 2), step_of(3, 2)},
                                             {step_of(1, 100), step_of(2, 4), step_of(3, 4)},
                                             {step_of(1, 100), step_of(2, 3), step_of(3, 3)}},
                                            1);
  EXPECT_EQ(m.runs, 3);
  EXPECT_EQ(m.steps, 6);
  EXPECT_DOUBLE_EQ(m.step_seconds, 3);
  EXPECT_DOUBLE_EQ(m.least, 2);
  EXPECT_DOUBLE_EQ(m.most, 4);
  EXPECT_DOUBLE_EQ(m.p10, 2);
  EXPECT_DOUBLE_EQ(m.p90, 4);
  EXPECT_DOUBLE_EQ(m.work, 1000);
  EXPECT_DOUBLE_EQ(m.tokens_per_second, 100.0 / 3);
  EXPECT_DOUBLE_EQ(m.peak_memory_bytes, 30);
  EXPECT_DOUBLE_EQ(m.parts.total(), 3);
}

}  // namespace
}  // namespace hexad::scale
