// Comparison of the tensors that ranks hold.
#include "parallel/pp/held_tensors.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "parallel/pp/program_check.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

CheckedSchedule program_of(PipelineKind kind, int ranks, int micro_batches) {
  return checked(make_schedule({.kind = kind, .split = {}}, ranks, micro_batches), false);
}

// Returns the inner ranks (neither first nor last) whose tensors no earlier inner rank covers.
std::vector<int> uncovered(const CheckedSchedule& program) {
  std::vector<int> ranks;
  std::vector<HeldTensors> held;
  for (int rank = 1; rank + 1 < program.schedule.stages.ranks; ++rank) {
    HeldTensors mine(program, rank);
    bool covered = false;
    for (const HeldTensors& earlier : held) covered = covered || earlier.cover(mine);
    if (covered) continue;
    held.push_back(std::move(mine));
    ranks.push_back(rank);
  }
  return ranks;
}

TEST(HeldTensors, CoverThemselves) {
  for_all_schedules(4, 9, [](const Schedule& schedule) {
    const CheckedSchedule program = checked(schedule, false);
    for (int rank = 0; rank < schedule.stages.ranks; ++rank)
      EXPECT_TRUE(HeldTensors(program, rank).cover(HeldTensors(program, rank))) << to_string(schedule);
  });
}

TEST(HeldTensors, CoveredRanksHaveNoLargerPeakOfActivations) {
  for_all_schedules(5, 12, [](const Schedule& schedule) {
    const CheckedSchedule program = checked(schedule, false);
    const std::vector<int> peaks = peak_activations(schedule);
    std::vector<HeldTensors> held;
    for (int rank = 0; rank < schedule.stages.ranks; ++rank) held.emplace_back(program, rank);
    for (size_t a = 0; a < held.size(); ++a)
      for (size_t b = 0; b < held.size(); ++b)
        if (held[a].cover(held[b])) {
          EXPECT_GE(peaks[a], peaks[b]) << "ranks " << a << " and " << b << "\n" << to_string(schedule);
        }
  });
}

TEST(HeldTensors, FirstInnerRankCoversTheOthersUnder1F1B) {
  for (const int micro_batches : {1, 3, 8, 17}) {
    const CheckedSchedule program = program_of(PipelineKind::one_f_one_b, 8, micro_batches);
    EXPECT_EQ(uncovered(program), std::vector<int>{1}) << micro_batches << " micro-batches";
  }
  const CheckedSchedule program = program_of(PipelineKind::one_f_one_b, 8, 17);
  EXPECT_FALSE(HeldTensors(program, 2).cover(HeldTensors(program, 1)));
  EXPECT_FALSE(HeldTensors(program, 0).cover(HeldTensors(program, 1))) << "rank 0 receives no inputs";
}

TEST(HeldTensors, FewRanksCoverTheOthersUnderInterleaving) {
  EXPECT_EQ(uncovered(program_of(PipelineKind::interleaved, 8, 16)), (std::vector<int>{1, 2}));
  EXPECT_EQ(uncovered(program_of(PipelineKind::interleaved, 16, 32)), (std::vector<int>{1, 2}));
}

TEST(HeldTensors, ZeroBubbleRanksCoverNoOthers) {
  EXPECT_EQ(uncovered(program_of(PipelineKind::zb_h1, 6, 12)), (std::vector<int>{1, 2, 3, 4}))
      << "a later rank keeps fewer micro-batches for backward, but more for delayed weight gradients";
}

TEST(HeldTensors, MergedPairsAreRefused) {
  const PipelineConfig pairs{.kind = PipelineKind::one_f_one_b, .split = {}, .overlap = Overlap::micro_batches};
  EXPECT_THROW(HeldTensors(checked(make_schedule(pairs, 2, 4), true), 0), std::logic_error);
}

}  // namespace
}  // namespace hexad::pp
