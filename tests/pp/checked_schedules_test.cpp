// Schedules that are made once for many steps.
#include "parallel/pp/checked_schedules.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

void expect_equal(const Transfers& expected, const Transfers& actual) {
  EXPECT_EQ(expected.at_once, actual.at_once);
  ASSERT_EQ(expected.ranks.size(), actual.ranks.size());
  for (size_t rank = 0; rank < expected.ranks.size(); ++rank) {
    ASSERT_EQ(expected.ranks[rank].size(), actual.ranks[rank].size());
    for (size_t i = 0; i < expected.ranks[rank].size(); ++i) {
      EXPECT_EQ(expected.ranks[rank][i].receives, actual.ranks[rank][i].receives);
      EXPECT_EQ(expected.ranks[rank][i].frees, actual.ranks[rank][i].frees);
    }
  }
}

TEST(CheckedSchedules, AreThoseOfTheConfigWithTheirTransfers) {
  CheckedSchedules schedules;
  for (const PipelineConfig& config : all_configs())
    for (const int micro_batches : {3, 8}) {
      const CheckedSchedule& of = schedules.of(config, 3, micro_batches);
      const Schedule expected = make_schedule(config, 3, micro_batches);
      EXPECT_EQ(of.schedule.ranks, expected.ranks) << to_string(expected);
      EXPECT_EQ(of.merge, config.overlap == Overlap::micro_batches);
      expect_equal(transfers(expected, of.merge), of.transfers);
      expect_equal(transfers(expected, of.merge, Freeing::latest),
                   schedules.of(config, 3, micro_batches, Freeing::latest).transfers);
    }
}

TEST(CheckedSchedules, AreMadeOnce) {
  CheckedSchedules schedules;
  const PipelineConfig config{.kind = PipelineKind::interleaved, .virtual_stages = 2, .split = {}};
  PipelineConfig more_stages = config;
  more_stages.virtual_stages = 3;
  const CheckedSchedule* first = &schedules.of(config, 2, 4);
  EXPECT_NE(&schedules.of(more_stages, 2, 4), first);
  EXPECT_NE(&schedules.of(config, 4, 4), first);
  EXPECT_NE(&schedules.of(config, 2, 6), first);
  EXPECT_EQ(&schedules.of(config, 2, 4), first);
}

TEST(CheckedSchedules, RefuseIllegalSizes) {
  CheckedSchedules schedules;
  const PipelineConfig config{.split = {}};
  EXPECT_THROW(schedules.of(config, 2, 0), base::Error);
  EXPECT_EQ(schedules.of(config, 2, 1).schedule.micro_batches, 1);
}

TEST(Checked, RefusesAScheduleWithAMistake) {
  Schedule schedule = make_schedule({.split = {}}, 2, 2);
  schedule.ranks[1].pop_back();
  EXPECT_THROW(checked(std::move(schedule), false), std::logic_error);
}

}  // namespace
}  // namespace hexad::pp
