// Keys of schedule.moe that the recipe's layout, model or other settings do not support are reported with the reason.
#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, ReDecisionsNeedAnOpenChoice) {
  EXPECT_NE(
      problem({"schedule.moe.redecide_every=10"})
          .find("schedule.moe.redecide_every (10) has nothing to decide, because no choice of schedule.moe is auto"),
      std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.redecide_every=10", "schedule.moe.duplicates=auto"}));
}

TEST(Recipe, OnlyGemmsByLoadReadDenseRows) {
  EXPECT_NE(problem({"schedule.moe.dense_rows=8"})
                .find("schedule.moe.dense_rows (8) is read only by schedule.moe.gemms: "
                      "by_load; set gemms: by_load, or dense_rows: auto"),
            std::string::npos)
      << problem({"schedule.moe.dense_rows=8"});
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.dense_rows=8", "schedule.moe.gemms=by_load"}));
}

TEST(Recipe, ShadowsAreRefusedWithTheReason) {
  const std::string shadow = "schedule.moe.hot_experts=shadow";
  EXPECT_NO_THROW(recipe_of(yaml, {shadow, "schedule.moe.hot_load=1.5"}));
  EXPECT_NO_THROW(recipe_of(yaml, {shadow, "schedule.moe.memory_reuse=s4"}));
  const auto expect = [&](const std::vector<std::string>& overrides, const std::string& why) {
    const std::string what = problem(overrides);
    EXPECT_NE(what.find(why), std::string::npos) << what;
  };
  expect({"schedule.moe.hot_load=2"}, "schedule.moe.hot_load (2) is read only by schedule.moe.hot_experts: shadow");
  expect({shadow, "schedule.moe.hot_load=0.5"}, "schedule.moe.hot_load");
  expect({shadow, "schedule.moe.rows=token"}, "schedule.moe.hot_experts (shadow) needs schedule.moe.rows: slot");
  expect({shadow, "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=64MiB"},
         "schedule.moe.memory_limit: none");
  expect({shadow, "schedule.moe.memory_reuse=auto"}, "schedule.moe.memory_reuse: none or s1 to s4");
  expect({shadow, "schedule.pipeline.overlap=micro_batches"}, "needs schedule.moe.hot_experts: stay");
}

TEST(Recipe, ComputeShareNeedsOverlap) {
  const std::string share = "schedule.moe.compute_share=0.5",
                    why = "leaves threads to chunks in flight, but no chunks are";
  EXPECT_NE(problem({share}).find("schedule.moe.compute_share (0.5) " + why), std::string::npos) << problem({share});
  const std::string in_sequence =
      problem({share, "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2", "schedule.moe.overlap=none"});
  EXPECT_NE(in_sequence.find(why), std::string::npos) << in_sequence;
  for (const char* other : {"chunk_by=tokens", "chunk_by=auto", "overlap=auto", "memory_reuse=auto"})
    EXPECT_NO_THROW(recipe_of(yaml, {share, std::string("schedule.moe.") + other})) << other;
  EXPECT_NO_THROW(recipe_of(yaml, {share, "schedule.moe.shared=beside", "model.moe.shared_experts=1"}));
}

TEST(Recipe, OrderOfAnMoeLayerMustBeRegisteredAndPossible) {
  EXPECT_EQ(problem({"schedule.moe.order=return_last"}),
            "command line: schedule.moe.order=return_last: schedule.moe.order (return_last) is not a registered order; "
            "registered: returns_last, weights_last, alternating");
  EXPECT_EQ(
      problem({"schedule.moe.order=returns_last"}),
      "command line: schedule.moe.order=returns_last: schedule.moe.order (returns_last) has no chunks to order: set "
      "schedule.moe.chunk_by, or order: alternating");
  const std::vector<std::string> cut{"schedule.moe.chunk_by=tokens", "schedule.moe.order=returns_last"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), cut.begin(), cut.end());
    return more;
  };
  EXPECT_EQ(problem(with({"schedule.moe.chunks=3", "schedule.moe.memory_reuse=s4"})),
            "command line: schedule.moe.order=returns_last: schedule.moe.order (returns_last) is illegal for 3 chunks: "
            "step 3 is dispatch[2], but 2 chunks are in flight already, and schedule.moe.memory_reuse has only 2 "
            "buffers");
  EXPECT_NO_THROW(recipe_of(yaml, with({"schedule.moe.chunks=2", "schedule.moe.memory_reuse=s4"})));
  const std::string more =
      problem(with({"schedule.moe.chunks=2", "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=1000000000"}));
  EXPECT_NE(more.find("schedule.moe.order (returns_last) is illegal for 3 chunks"), std::string::npos) << more;
  EXPECT_NO_THROW(recipe_of(yaml, with({"schedule.moe.chunks=3"})));
}

TEST(Recipe, MemoryLimitCountsRowsOfSlots) {
  const std::string message =
      problem({"schedule.moe.memory_limit=100000000", "schedule.moe.memory_reuse=s4", "schedule.moe.rows=token"});
  EXPECT_NE(message.find("needs schedule.moe.rows: slot (now token), because a limit counts only buffers of slot rows"),
            std::string::npos)
      << message;
}

TEST(Recipe, MemoryLimitNeedsTheDirectAllToAll) {
  const std::string message = problem(
      {"schedule.moe.memory_limit=100000000", "schedule.moe.memory_reuse=s4", "schedule.moe.all_to_all=hierarchical"});
  EXPECT_NE(
      message.find("needs schedule.moe.all_to_all: direct (now hierarchical), because a limit does not count rows"),
      std::string::npos)
      << message;
}

TEST(Recipe, WindowsNeedRowsOfSlotsThatAreSentAsTheyAre) {
  const std::string window = "schedule.moe.all_to_all=window", chunks = "schedule.moe.chunks=2";
  EXPECT_NO_THROW(recipe_of(yaml, {window}));
  const auto expect_need = [](const std::vector<std::string>& overrides, const std::string& need) {
    const std::string message = problem(overrides);
    EXPECT_NE(message.find("schedule.moe.all_to_all (window) needs " + need), std::string::npos) << message;
  };
  expect_need({window, "parallel.tp=2"}, "parallel.etp: 1");
  EXPECT_NO_THROW(recipe_of(yaml, {window, "parallel.tp=2", "parallel.etp=1"}));
  expect_need({window, "schedule.moe.rows=token"}, "schedule.moe.rows: slot");
  expect_need({window, "schedule.moe.wire=fp8"}, "schedule.moe.wire: model");
  expect_need({window, "schedule.moe.memory_reuse=s4"}, "schedule.moe.memory_reuse: none");
  expect_need({window, "schedule.moe.hot_experts=shadow"}, "schedule.moe.hot_experts: stay");
  expect_need({window, chunks, "schedule.moe.overlap=a2a_allgather"}, "schedule.moe.overlap: sequential or none");
}

TEST(Recipe, SharedExpertsBesideTheAllToAllMustExist) {
  EXPECT_EQ(problem({"schedule.moe.shared=beside"}),
            "command line: schedule.moe.shared=beside: schedule.moe.shared (beside) needs shared experts or a "
            "dense MLP, but model.moe.shared_experts is 0 and model.moe.dense_residual is false; legal here: after");
  const std::string open = problem({"schedule.moe.shared=beside", "schedule.moe.chunk_by=auto"});
  EXPECT_NE(open.find("model.moe.shared_experts is 0"), std::string::npos) << open;
  const Recipe r = recipe_of(yaml, {"schedule.moe.shared=beside", "model.moe.shared_experts=1"});
  EXPECT_TRUE(r.schedule.lanes_have_threads(r.schedule.moe.settled()));
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.shared=beside", "model.moe.dense_residual=true"}));
}

TEST(Recipe, PaddingNeedsACapacityAndSentSlotRowsOfAWholeMicroBatch) {
  const std::string padded = "schedule.moe.capacity_padding=full", capacity = "model.moe.capacity_factor=1.2";
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& why) {
    more.push_back(padded);
    const std::string message = problem(more);
    EXPECT_NE(message.find(why + ", or capacity_padding: none"), std::string::npos) << message;
  };
  expect_refused({}, "model.moe.capacity_factor is not set; set model.moe.capacity_factor");
  expect_refused({capacity, "schedule.moe.rows=token"}, "schedule.moe.rows is token; set schedule.moe.rows: slot");
  expect_refused(
      {capacity, "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"},
      "schedule.moe.chunk_by is tokens and schedule.moe.overlap is sequential; set chunk_by: none and overlap: "
      "sequential (any overlap with duplicates: pause_after_gate)");
  expect_refused({capacity, "schedule.moe.memory_reuse=s4"},
                 "schedule.moe.memory_reuse: s4 cannot restore; set schedule.moe.memory_reuse: none");
  expect_refused({capacity, "schedule.moe.hot_experts=shadow"},
                 "sends no rows of hot experts; set schedule.moe.hot_experts: stay");
  EXPECT_NO_THROW(recipe_of(yaml, {capacity, padded}));
}

// In Parm's SAA, there is at most one phase for each rank of the all-to-all.
TEST(Recipe, PhasesOfTheReturnAreAtMostParallelEpOrOneForEachRank) {
  const auto with = [](int64_t phases, const std::string& exchange) {
    return std::vector<std::string>{"parallel.tp=2",
                                    "parallel.ep=2",
                                    "parallel.etp=2",
                                    "schedule.moe.duplicates=pause_after_gate",
                                    "schedule.moe.overlap=a2a_allgather",
                                    "schedule.moe.esp_exchange=" + exchange,
                                    base::cat("schedule.moe.chunks=", phases)};
  };
  for (const int64_t phases : {2, 4})
    EXPECT_NO_THROW(recipe_of(yaml, with(phases, "direct"), 4)) << phases << " phases";
  const std::string three = problem(with(3, "direct"), 4), four = problem(with(4, "gather"), 4);
  EXPECT_NE(three.find("must be at most parallel.ep (2), or equal to parallel.ep x parallel.etp (4), for the phases"),
            std::string::npos)
      << three;
  EXPECT_NE(four.find("must be at most parallel.ep (2), for the phases"), std::string::npos) << four;
}

}  // namespace
}  // namespace hexad::tests
