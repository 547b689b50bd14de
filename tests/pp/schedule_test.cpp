// The list of actions of each rank, compared with the papers' figures.
#include "parallel/pp/schedule.h"

#include <gtest/gtest.h>

#include "framework/config/typed_recipe.h"
#include "parallel/pp/price.h"
#include "parallel/pp/program_check.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

std::string text(PipelineKind kind, int ranks, int micro_batches, int64_t virtual_stages = 2) {
  return to_string(make_schedule({.kind = kind, .virtual_stages = virtual_stages, .split = {}}, ranks, micro_batches));
}

TEST(Schedule, GPipeDoesAllForwardsFirst) {
  EXPECT_EQ(text(PipelineKind::gpipe, 2, 3),
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n"
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n");
}

// Narayanan et al. 2021, fig. 4 top, with 6 of its 8 micro-batches.
TEST(Schedule, OneForwardOneBackwardStartsOneForwardForEachLaterRank) {
  EXPECT_EQ(text(PipelineKind::one_f_one_b, 4, 6),
            "F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 F0.5 B0.2 B0.3 B0.4 B0.5\n"
            "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 F0.4 B0.2 F0.5 B0.3 B0.4 B0.5\n"
            "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 F0.4 B0.3 F0.5 B0.4 B0.5\n"
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3 F0.4 B0.4 F0.5 B0.5\n");
}

TEST(Schedule, OneForwardOneBackwardInPairsIsTwiceAsFarAhead) {
  const auto pairs = [](int ranks, int micro_batches) {
    return to_string(make_schedule({.kind = PipelineKind::one_f_one_b, .split = {}, .overlap = Overlap::micro_batches},
                                   ranks, micro_batches));
  };
  EXPECT_EQ(pairs(1, 4), "F0.0 F0.1+B0.0 F0.2+B0.1 F0.3+B0.2 B0.3\n");
  EXPECT_EQ(pairs(2, 5),
            "F0.0 F0.1 F0.2 F0.3+B0.0 F0.4+B0.1 B0.2 B0.3 B0.4\n"
            "F0.0 F0.1+B0.0 F0.2+B0.1 F0.3+B0.2 F0.4+B0.3 B0.4\n");
  EXPECT_EQ(pairs(2, 1), "F0.0 B0.0\nF0.0 B0.0\n");
}

TEST(Schedule, KindsWithoutPairsAreRefused) {
  for (const PipelineKind kind : all_kinds()) {
    const PipelineConfig config{.kind = kind, .split = {}, .overlap = Overlap::micro_batches};
    if (config.has_pairs())
      EXPECT_NO_THROW(make_schedule(config, 2, 4)) << name_of(kind);
    else
      EXPECT_THROW(make_schedule(config, 2, 4), base::Error) << name_of(kind);
  }
}

TEST(Schedule, InterleavedTakesVirtualStagesInTurn) {
  EXPECT_EQ(text(PipelineKind::interleaved, 2, 4),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3\n"
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3\n");
}

// Narayanan et al. 2021, fig. 4 bottom: the first device runs 1 2 3 4 1' 2' 3' 4' 5 6 7 before its first backward.
TEST(Schedule, InterleavedStartsElevenForwardsOnTheFirstOfFourRanks) {
  const std::string all = text(PipelineKind::interleaved, 4, 8);
  EXPECT_EQ(all.substr(0, all.find('B')), "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 F0.5 F0.6 ");
}

TEST(Schedule, InterleavedWithOneVirtualStageIsOneForwardOneBackward) {
  EXPECT_EQ(text(PipelineKind::interleaved, 4, 7, 1), text(PipelineKind::one_f_one_b, 4, 7));
}

// Qi et al. 2023, fig. 3: the last rank delays three weight gradients.
TEST(Schedule, ZbH1DelaysWeightGradientsByTheRank) {
  EXPECT_EQ(text(PipelineKind::zb_h1, 4, 6),
            "F0.0 F0.1 F0.2 F0.3 I0.0 W0.0 F0.4 I0.1 W0.1 F0.5 I0.2 W0.2 I0.3 W0.3 I0.4 W0.4 I0.5 W0.5\n"
            "F0.0 F0.1 F0.2 I0.0 F0.3 I0.1 W0.0 F0.4 I0.2 W0.1 F0.5 I0.3 W0.2 I0.4 W0.3 I0.5 W0.4 W0.5\n"
            "F0.0 F0.1 I0.0 F0.2 I0.1 F0.3 I0.2 W0.0 F0.4 I0.3 W0.1 F0.5 I0.4 W0.2 I0.5 W0.3 W0.4 W0.5\n"
            "F0.0 I0.0 F0.1 I0.1 F0.2 I0.2 F0.3 I0.3 W0.0 F0.4 I0.4 W0.1 F0.5 I0.5 W0.2 W0.3 W0.4 W0.5\n");
}

TEST(Schedule, ZbVTurnsOnTheLastRank) {
  EXPECT_EQ(text(PipelineKind::zb_v, 2, 4),
            "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 I1.1 W1.1 F0.3 I0.0 W0.0 F1.2 I1.2 W1.2 I0.1 W0.1 F1.3 I1.3 W1.3 "
            "I0.2 W0.2 I0.3 W0.3\n"
            "F0.0 F1.0 F0.1 F1.1 I1.0 W1.0 F0.2 I0.0 W0.0 F1.2 I1.1 W1.1 F0.3 I0.1 W0.1 F1.3 I1.2 W1.2 I0.2 I1.3 "
            "I0.3 W0.2 W1.3 W0.3\n");
}

TEST(Schedule, DualPipeVMergesForwardsOfOneArmWithBackwardsOfTheOther) {
  EXPECT_EQ(text(PipelineKind::dualpipe_v, 2, 4),
            "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 F0.3+B1.1 F1.2+B0.0 B1.2 F1.3+B0.1 B1.3 I0.2 W0.2 I0.3 W0.3\n"
            "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 F1.2+B0.0 F0.3+B1.1 F1.3+B0.1 B1.2 B0.2 I1.3 I0.3 W1.3 W0.3\n");
}

TEST(Schedule, OneRankDoesEveryMicroBatchOfEveryVirtualStage) {
  EXPECT_EQ(text(PipelineKind::one_f_one_b, 1, 2), "F0.0 B0.0 F0.1 B0.1\n");
  EXPECT_EQ(text(PipelineKind::interleaved, 1, 2), "F0.0 F1.0 B1.0 F0.1 B0.0 F1.1 B1.1 B0.1\n");
  EXPECT_EQ(text(PipelineKind::zb_h1, 1, 2), "F0.0 I0.0 W0.0 F0.1 I0.1 W0.1\n");
  EXPECT_EQ(text(PipelineKind::zb_v, 1, 1), "F0.0 F1.0 I1.0 W1.0 I0.0 W0.0\n");
  EXPECT_EQ(text(PipelineKind::dualpipe_v, 1, 1), "F0.0 F1.0 B1.0 B0.0\n");
}

TEST(Schedule, DropsActionsOfMissingMicroBatches) {
  EXPECT_EQ(text(PipelineKind::interleaved, 2, 3),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 B1.1 F1.2 B0.0 B0.1 B1.2 B0.2\n"
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 B0.1 F1.2 B1.2 B0.2\n");
  EXPECT_EQ(text(PipelineKind::dualpipe_v, 2, 1), "F0.0 F1.0 I1.0 W1.0 B0.0\nF0.0 F1.0 B1.0 B0.0\n");
}

TEST(Schedule, EveryKindIsExecutableOnUpToEightRanks) {
  for_all_schedules(8, 16, [](const Schedule& s) {
    SCOPED_TRACE(to_string(s));
    EXPECT_NO_THROW(check(s));
  });
}

// Evaluations run only forward passes.
TEST(Schedule, ForwardsAloneAreExecutable) {
  for_all_schedules(5, 11, [](const Schedule& whole) {
    const Schedule s = forwards_of(whole);
    EXPECT_NO_THROW(check(s));
    const Price p = price(s, StageTimes{});
    for (const double busy : p.busy) EXPECT_EQ(busy, s.stages.stages_a_rank * s.micro_batches);
  });
}

TEST(Schedule, RefusesSizesBelowOne) {
  const auto refusal = [](int ranks, int micro_batches, int64_t virtual_stages) -> std::string {
    try {
      make_schedule({.kind = PipelineKind::interleaved, .virtual_stages = virtual_stages, .split = {}}, ranks,
                    micro_batches);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(0, 4, 2), "parallel.pp (0) must be at least 1");
  EXPECT_EQ(refusal(2, 4, 0), "schedule.pipeline.virtual_stages (0) must be at least 1");
  EXPECT_EQ(
      refusal(2, 0, 2),
      "micro-batches per step of each pipeline (batch.global / batch.micro / parallel.dp) (0) must be at least 1");
}

TEST(StageMap, PlacesStagesInALoopOrAV) {
  const StageMap loop{4, 3, Placing::loop}, vee{4, 2, Placing::vee};
  EXPECT_EQ(loop.stage(1, 2), 9);
  EXPECT_EQ(vee.stage(0, 0), 0);
  EXPECT_EQ(vee.stage(0, 1), 7);
  EXPECT_EQ(vee.stage(3, 0), 3);
  EXPECT_EQ(vee.stage(3, 1), 4);
  for (const StageMap& map : {loop, vee})
    for (int s = 0; s < map.stages(); ++s) EXPECT_EQ(map.stage(map.place(s).rank, map.place(s).local_stage), s);
}

TEST(PipelineConfig, IsReadFromARecipe) {
  config::Problems problems;
  const auto c = config::read<PipelineConfig>(config::parse("kind: zb_v\nsplit: [2, 1, 1, 2]\n", "a.yaml"), problems);
  problems.throw_if_any();
  EXPECT_EQ(c.kind, PipelineKind::zb_v);
  EXPECT_EQ(c.split, (std::vector<int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(c.stages_a_rank(), 2);
  EXPECT_EQ(name_of(c.kind), "zb_v");
}

TEST(PipelineConfig, HasANameAndOnlyInterleavedChoosesItsVirtualStages) {
  EXPECT_EQ(name_of(PipelineKind::one_f_one_b), "1f1b");
  for (const PipelineKind kind : all_kinds()) {
    const bool vee = kind == PipelineKind::zb_v || kind == PipelineKind::dualpipe_v;
    const StageMap map = stage_map({.kind = kind, .virtual_stages = 5, .split = {}}, 3);
    EXPECT_EQ(map.stages_a_rank, kind == PipelineKind::interleaved ? 5 : vee ? 2 : 1) << name_of(kind);
    EXPECT_EQ(map.placing, vee ? Placing::vee : Placing::loop) << name_of(kind);
  }
}

}  // namespace
}  // namespace hexad::pp
