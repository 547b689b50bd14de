#include <gtest/gtest.h>

#include <cmath>

#include "optim/lr_schedule.h"

namespace hexad::optim {
namespace {

OptimConfig config(ScheduleKind kind) {
  OptimConfig c;
  c.lr = 2.0, c.schedule = kind, c.warmup = 10, c.min_lr_ratio = 0.1, c.decay_fraction = 0.2;
  return c;
}

constexpr int64_t total = 110;  // the warm-up and 100 further steps

TEST(LearningRate, IncreasesLinearlyToThePeak) {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(config(kind), 1, total), 0.2);
    EXPECT_DOUBLE_EQ(learning_rate(config(kind), 5, total), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(config(kind), 10, total), 2.0);
  }
}

TEST(LearningRate, StartsJustBelowThePeakWithoutWarmUp) {
  OptimConfig c = config(ScheduleKind::linear);
  c.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 1, 100), 2.0 * (0.1 + 0.9 * 0.99));
}

TEST(LearningRate, ConstantRemainsAtThePeak) {
  EXPECT_EQ(learning_rate(config(ScheduleKind::constant), 110, total), 2.0);
}

TEST(LearningRate, CosineIsHalfWayInTheMiddleAndEndsAtTheMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(config(ScheduleKind::cosine), 60, total), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config(ScheduleKind::cosine), 35, total), 2.0 * (0.1 + 0.45 * (1 + std::sqrt(0.5))));
  EXPECT_DOUBLE_EQ(learning_rate(config(ScheduleKind::cosine), 110, total), 0.2);
}

TEST(LearningRate, LinearIsHalfWayInTheMiddleAndEndsAtTheMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(config(ScheduleKind::linear), 60, total), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(config(ScheduleKind::linear), 110, total), 0.2);
}

TEST(LearningRate, WsdIsConstantUntilTheLastShareOfAllSteps) {
  const OptimConfig c = config(ScheduleKind::wsd);  // the last 22 of 110 steps decay
  EXPECT_EQ(learning_rate(c, 50, total), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 88, total), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 99, total), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(c, 110, total), 0.2);
}

TEST(LearningRate, WsdWithoutDecayIsConstant) {
  OptimConfig c = config(ScheduleKind::wsd);
  c.decay_fraction = 0;
  EXPECT_EQ(learning_rate(c, 110, total), 2.0);
}

TEST(LearningRate, KeepsItsLastValueAfterTheEnd) {
  for (const auto kind : {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::wsd})
    EXPECT_DOUBLE_EQ(learning_rate(config(kind), 1000, total), 0.2);
}

TEST(LearningRate, WarmUpOfTheWholeRunNeverDecays) {
  OptimConfig c = config(ScheduleKind::cosine);
  c.warmup = total;
  EXPECT_DOUBLE_EQ(learning_rate(c, 55, total), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 110, total), 2.0);
}

}  // namespace
}  // namespace hexad::optim
