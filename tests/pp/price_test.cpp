// The simulated step compared with hand counts and the papers' formulas.
#include "parallel/pp/price.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

Schedule schedule_of(PipelineKind kind, int ranks, int micro_batches, int64_t virtual_stages = 2) {
  return make_schedule({.kind = kind, .virtual_stages = virtual_stages, .split = {}}, ranks, micro_batches);
}

// Calls f(times) for all combinations of 1, 2 or 3 seconds for forward, input gradient and weight gradient. Sums of
// whole seconds are exact.
template <class F>
void for_all_times(F&& f) {
  for (int forward = 1; forward <= 3; ++forward)
    for (int input = 1; input <= 3; ++input)
      for (int weight = 1; weight <= 3; ++weight)
        f(StageTimes{static_cast<double>(forward), static_cast<double>(input), static_cast<double>(weight)});
}

TEST(Bubble, SimulatedBubbleEqualsTheFormula) {
  std::map<std::pair<PipelineKind, bool>, int> compared;
  for (const PipelineConfig& config : all_configs())
    for (const int ranks : {1, 2, 3, 4, 7})
      for (int micro_batches = 1; micro_batches <= 3 * ranks; micro_batches += (ranks + 1) / 2)
        for (const bool merge : {false, true})
          for_all_times([&](const StageTimes& t) {
            const Schedule schedule = make_schedule(config, ranks, micro_batches);
            const auto expected = bubble_seconds(schedule, t, merge);
            if (!expected) return;
            const Price p = price(schedule, t, {.merge = merge});
            for (int r = 0; r < ranks; ++r)
              EXPECT_EQ(p.step - p.busy[r], *expected)
                  << name_of(config.kind) << " of " << ranks << " ranks, " << schedule.stages.stages_a_rank
                  << " virtual stages per rank, " << micro_batches << " micro-batches, times " << t.forward << ' '
                  << t.backward_input << ' ' << t.backward_weight << ", merge " << merge;
            ++compared[{config.kind, merge}];
          });
  for (const PipelineKind kind : all_kinds())
    for (const bool merge : {false, true})
      EXPECT_GT((compared[{kind, merge}]), 40) << name_of(kind) << ", merge " << merge;
}

TEST(Bubble, HasNoFormulaIfNoneHolds) {
  const StageTimes equal, slow_input{1, 4, 1};
  EXPECT_FALSE(bubble_seconds(schedule_of(PipelineKind::interleaved, 4, 7), equal));
  EXPECT_FALSE(bubble_seconds(schedule_of(PipelineKind::zb_h1, 4, 3), equal));
  EXPECT_FALSE(bubble_seconds(schedule_of(PipelineKind::zb_v, 4, 7), equal));
  EXPECT_FALSE(bubble_seconds(schedule_of(PipelineKind::zb_v, 4, 8), slow_input));
  EXPECT_FALSE(bubble_seconds(schedule_of(PipelineKind::dualpipe_v, 4, 8), slow_input));
}

TEST(Bubble, ShrinksFromGPipeToInterleavedToZeroBubble) {
  // Both sets of times are of the same model. Each stage takes half the time if a rank has two virtual stages.
  const StageTimes whole{2, 2, 2}, half{1, 1, 1};
  const auto share = [&](PipelineKind kind) {
    const Schedule s = schedule_of(kind, 4, 16);
    return price(s, s.stages.stages_a_rank == 2 ? half : whole).bubble();
  };
  EXPECT_DOUBLE_EQ(share(PipelineKind::gpipe), 3.0 / 19);  // (p - 1) / (m + p - 1)
  EXPECT_DOUBLE_EQ(share(PipelineKind::one_f_one_b), 3.0 / 19);
  EXPECT_DOUBLE_EQ(share(PipelineKind::interleaved), 3.0 / 35);
  EXPECT_DOUBLE_EQ(share(PipelineKind::zb_h1), 1.0 / 17);
  EXPECT_DOUBLE_EQ(share(PipelineKind::zb_v), 1.0 / 33);
  EXPECT_DOUBLE_EQ(share(PipelineKind::dualpipe_v), 1.0 / 33);
}

TEST(Price, OneMicroBatchVisitsEveryStageTwiceAndEveryLinkTwice) {
  for (const PipelineConfig& config : all_configs()) {
    const Schedule s = make_schedule(config, 3, 1);
    if (config.kind == PipelineKind::zb_h1 || config.kind == PipelineKind::zb_v ||
        config.kind == PipelineKind::dualpipe_v)
      continue;  // the weight gradients of these kinds are not on the critical path
    const int stages = s.stages.stages();
    const Price p = price(s, {.forward = 1, .backward_input = 2, .backward_weight = 3}, {.send = 10});
    EXPECT_EQ(p.step, stages * (1 + 2 + 3) + 2 * (stages - 1) * 10) << name_of(config.kind);
  }
}

TEST(Price, HandOverWithinARankIsFree) {
  const Schedule v = schedule_of(PipelineKind::zb_v, 1, 1);
  EXPECT_EQ(price(v, StageTimes{}, {.send = 10}).step, 6);
}

TEST(Price, LinkCarriesOneMessageAtATime) {
  const Price p = price(schedule_of(PipelineKind::gpipe, 2, 3), StageTimes{}, {.send = 10});
  for (const auto& [i, begin] : {std::pair<size_t, double>{0, 11}, {1, 21}, {2, 31}})
    EXPECT_EQ(p.spans[1][i].begin, begin);
}

TEST(Price, SlowestStageSetsThePace) {
  const std::vector<StageTimes> times{{1, 1, 1}, {2, 2, 2}, {1, 1, 1}};
  const Price p = price(schedule_of(PipelineKind::one_f_one_b, 3, 100), times);
  EXPECT_EQ(p.busy, (std::vector<double>{300, 600, 300}));
  EXPECT_NEAR(p.step, 600, 20);
  EXPECT_NEAR(p.bubble(1), 0, 0.05);
  EXPECT_NEAR(p.bubble(0), 0.5, 0.05);
}

TEST(Price, SpansOfARankFollowEachOther) {
  for_all_schedules(4, 9, [](const Schedule& s) {
    const Price p = price(s, {.forward = 2, .backward_input = 3, .backward_weight = 1}, {.send = 0.5});
    for (size_t r = 0; r < s.ranks.size(); ++r) {
      ASSERT_EQ(p.spans[r].size(), s.ranks[r].size());
      for (size_t i = 1; i < p.spans[r].size(); ++i) EXPECT_GE(p.spans[r][i].begin, p.spans[r][i - 1].end);
      EXPECT_EQ(p.busy[r], 6 * s.stages.stages_a_rank * s.micro_batches);
    }
  });
}

TEST(Price, NeedsTheTimesOfEveryVirtualStage) {
  const std::vector<StageTimes> two(2);
  EXPECT_THROW(price(schedule_of(PipelineKind::zb_v, 2, 4), two), std::logic_error);
}

}  // namespace
}  // namespace hexad::pp
