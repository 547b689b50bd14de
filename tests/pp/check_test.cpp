// Wrong schedules are rejected with an error that names the mistake. Peaks of activations match the papers.
#include "parallel/pp/program_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

using Kind = Action::Kind;

Schedule one_f_one_b(int ranks, int micro_batches) {
  return make_schedule({.kind = PipelineKind::one_f_one_b, .virtual_stages = 1, .split = {}}, ranks, micro_batches);
}

std::string verdict(const Schedule& schedule) {
  try {
    check(schedule);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "executable";
}

// Changes the schedule 1F1B of two ranks and two micro-batches by `mistake`, and returns the verdict. The unchanged
// schedule is F0 F1 B0 B1 on rank 0, and F0 B0 F1 B1 on rank 1.
template <class F>
std::string verdict_with(F&& mistake) {
  Schedule s = one_f_one_b(2, 2);
  mistake(s.ranks);
  return verdict(s);
}
using Ranks = std::vector<std::vector<Action>>;

TEST(Check, AcceptsAnExecutableSchedule) {
  EXPECT_EQ(verdict_with([](Ranks&) {}), "executable");
}

TEST(Check, FindsMissingAndRepeatedActions) {
  EXPECT_EQ(verdict_with([](Ranks& r) { r[1].pop_back(); }),
            "[pp] rank 1 leaves out a part of local stage 0 micro-batch 1; expected forward, input gradient and weight "
            "gradient");
  EXPECT_EQ(verdict_with([](Ranks& r) { r[1].back().kind = Kind::backward_input; }),
            "[pp] rank 1 leaves out a part of local stage 0 micro-batch 1; expected forward, input gradient and weight "
            "gradient");
  EXPECT_EQ(verdict_with([](Ranks& r) {
              r[0].push_back({Kind::forward, 0, 1});
            }),
            "[pp] rank 0 action 4 F0.1: a second forward; expected only one");
  EXPECT_EQ(verdict_with([](Ranks& r) {
              r[0].push_back({Kind::backward, 0, 1});
            }),
            "[pp] rank 0 action 4 B0.1: a second input gradient; expected only one");
  EXPECT_EQ(verdict_with([](Ranks& r) {
              r[0].push_back({Kind::backward_weight, 0, 1});
            }),
            "[pp] rank 0 action 4 W0.1: a second weight gradient; expected only one");
}

TEST(Check, FindsPrematureActions) {
  EXPECT_EQ(verdict_with([](Ranks& r) { std::swap(r[1][2], r[1][3]); }),
            "[pp] rank 1 action 2 B0.1: no forward before it; expected the forward first");
  EXPECT_EQ(verdict_with([](Ranks& r) { r[1][1].kind = Kind::backward_weight; }),
            "[pp] rank 1 action 1 W0.0: no input gradient before it; expected the input gradient first");
}

TEST(Check, FindsNonexistentStagesAndMicroBatches) {
  EXPECT_EQ(verdict_with([](Ranks& r) { r[0][0].local_stage = 1; }),
            "[pp] rank 0 action 0 F1.0: local stage 1 does not exist; expected 0 to 0");
  EXPECT_EQ(verdict_with([](Ranks& r) { r[0][0].micro = 2; }),
            "[pp] rank 0 action 0 F0.2: micro-batch 2 does not exist; expected 0 to 1");
  EXPECT_EQ(verdict_with([](Ranks& r) { r.pop_back(); }),
            "[pp] the schedule has 1 list of actions for 2 ranks; expected one list for each rank");
}

TEST(Check, FindsAWrongMerge) {
  EXPECT_EQ(verdict_with([](Ranks& r) { r[0][0].merged = true; }),
            "[pp] rank 0 action 0 F0.0: it is merged, but no backward of another micro-batch follows it; expected a "
            "forward, then "
            "such a backward");
  EXPECT_EQ(verdict_with([](Ranks& r) { r[1][0].merged = true; }),
            "[pp] rank 1 action 0 F0.0: it is merged, but no backward of another micro-batch follows it; expected a "
            "forward, then "
            "such a backward");
}

// Rank 0 needs the result of rank 1's B0.0 before it runs F0.1. Rank 1 needs the result of rank 0's F0.1 before it runs
// B0.0.
TEST(Check, FindsADeadlock) {
  EXPECT_EQ(verdict_with([](Ranks& r) {
              std::swap(r[0][1], r[0][2]);
              std::swap(r[1][1], r[1][2]);
            }),
            "[pp] the schedule never ends: rank 0 waits at B0.0, rank 1 waits at F0.1; expected an order in "
            "which ranks do not wait for each other");
}

// F0.1 and B0.0 of rank 0 are legal in sequence if rank 1 runs both forwards first. B0.0 waits for the result of F0.1
// if F0.1 and B0.0 are merged.
TEST(Check, FindsADeadlockOfMergedPairs) {
  Schedule s = one_f_one_b(2, 2);
  s.ranks[0][1].merged = true;  // merges F0.1 and B0.0; rank 1 runs B0.0 directly after F0.0
  EXPECT_EQ(verdict(s), "executable");
  s.ranks[1] = {{Kind::forward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 0}, {Kind::backward, 0, 1}};
  EXPECT_EQ(verdict(s),
            "[pp] the schedule never ends: rank 0 waits at F0.1, rank 1 waits at F0.1; expected an order in "
            "which ranks do not wait for each other");
}

TEST(PeakActivations, MatchThePapers) {
  const auto peaks = [](PipelineKind kind, int ranks, int micro_batches) {
    return peak_activations(make_schedule({.kind = kind, .virtual_stages = 2, .split = {}}, ranks, micro_batches));
  };
  const auto all = [](int n) { return std::vector(4, n); };
  EXPECT_EQ(peaks(PipelineKind::gpipe, 4, 12), all(12));
  EXPECT_EQ(peaks(PipelineKind::one_f_one_b, 4, 12), (std::vector{4, 3, 2, 1}));
  EXPECT_EQ(peaks(PipelineKind::interleaved, 4, 12), (std::vector{11, 9, 7, 5}));
  EXPECT_EQ(peaks(PipelineKind::zb_h1, 4, 12), all(4)) << "every rank of ZB-H1 has the peak of 1F1B's first rank";
  EXPECT_EQ(peaks(PipelineKind::zb_v, 4, 12), all(8)) << "eight virtual stages of half the size equal the peak of 1F1B";
  EXPECT_EQ(peaks(PipelineKind::dualpipe_v, 4, 12), all(9)) << "DualPipe-V keeps one virtual stage more than ZB-V";
}

TEST(PeakActivations, DoubleWithPairsOf1F1B) {
  EXPECT_EQ(peak_activations(make_schedule(
                {.kind = PipelineKind::one_f_one_b, .split = {}, .overlap = Overlap::micro_batches}, 4, 12)),
            (std::vector{8, 6, 4, 2}));
}

TEST(PeakActivations, NeverExceedThoseOfGPipe) {
  for_all_schedules(6, 14, [](const Schedule& s) {
    for (const int peak : peak_activations(s)) EXPECT_LE(peak, s.stages.stages_a_rank * s.micro_batches);
  });
}

}  // namespace
}  // namespace hexad::pp
