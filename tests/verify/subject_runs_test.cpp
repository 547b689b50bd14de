// Runs of a subject agree with its oracle, and their failures are outcomes.
#include <gtest/gtest.h>

#include "tests/training/training.h"
#include "tests/verify/subject_of_recipe.h"
#include "tools/verify/outcome_text.h"
#include "tools/verify/run_variant.h"
#include "tools/verify/subject.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

TEST_F(SubjectTest, TrainingLoopAgreesWithTheOracle) {
  const Subject s = subject();
  Oracles oracles(s);
  for (const char* text :
       {"dp=2,start=trained", "ep=2,zero=1,start=trained,subject=eventful", "tp=2,etp=1,start=trained,subject=bf16"}) {
    const Variant v = layout(text, 2);
    const Outcome o = run_in_threads(s, oracles.of(v), v, {.jitter = {}, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << explanation(o);
  }
}

// The subject fp8 is illegal for a recipe with fp8 rows, because fp8 would not change the recipe. Runs of the recipe
// must agree with the oracle.
TEST_F(SubjectTest, RecipeWithRowsInFp8IsVerified) {
  const Subject s = subject({"schedule.moe.wire=fp8", "model.moe.capacity_factor=1"});
  EXPECT_EQ(s.illegal(layout("ep=2,subject=fp8", 2)),
            "subject=fp8 changes nothing in this recipe; expected a subject that does");
  Oracles oracles(s);
  for (const char* text : {"ep=2", "ep=2,rows=token", "ep=2,memory_reuse=s4", "tp=2,esp_exchange=direct",
                           "ep=2,subject=zipf", "ep=2,subject=f32"}) {
    const Variant v = layout(text, 2);
    const Outcome o = run_in_threads(s, oracles.of(v), v, {.jitter = {}, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << text << ": " << explanation(o);
  }
}

// A memory limit needs memory reuse, which the oracle lacks. Therefore, no run uses the recipe's own limit.
TEST_F(SubjectTest, RecipeWithAMemoryLimitIsVerified) {
  const Subject s = subject({"schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=1000000"});
  const Oracle oracle = compute_oracle(s);
  for (const char* text : {"dp=2,ep=2", "dp=2,ep=2,memory_reuse=s4_limited"}) {
    const Outcome o = run_in_threads(s, oracle, layout(text, 2), {.jitter = {}, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << o.error;
  }
}

TEST_F(SubjectTest, FailureOfTrainingIsAnOutcome) {
  const Subject s = subject();
  Oracle oracle = compute_oracle(s);
  oracle.checkpoint = scratch / "nowhere";
  const Outcome o = run_in_threads(s, oracle, layout("ep=2,start=resumed", 2), {.jitter = {}, .seconds = 60});
  EXPECT_NE(o.error.find("nowhere"), std::string::npos) << o.error;
  EXPECT_FALSE(o.agrees());
}

// A rounded run that chose experts by its own scores would send some tokens to other experts than the oracle. The
// counts would then differ.
TEST_F(SubjectTest, RoundedRunsVisitTheOraclesExperts) {
  for (const char* device : {"cpu", "emulated"}) {
    const Subject s = subject({cat("device=", device), "model.layers=4", "batch.global=16", "model.context=32",
                               "model.moe.capacity_factor=1", "model.moe.bias_rate=0.01"});
    for (const std::string kind : {"f32", "bf16"}) {
      Oracle oracle = compute_oracle(s, Saves::yes, kind);
      const Variant v = layout(("dp=2,ep=2,recompute=block,start=resumed,subject=" + kind).c_str(), 2);
      const Outcome o = run_in_threads(s, oracle, v, {.jitter = {}, .seconds = 60});
      EXPECT_TRUE(o.agrees()) << explanation(o);
      if (kind != "bf16") continue;
      oracle.routing = {};
      EXPECT_FALSE(run_in_threads(s, oracle, v, {.jitter = {}, .seconds = 60}).agrees());
    }
    EXPECT_TRUE(compute_oracle(s, Saves::no).routing.empty());
  }
}

// Only one rank of etp adds the bias of the down product, but all etp ranks gather and reduce this bias.
TEST_F(SubjectTest, BiasAddedByOneRankIsGatheredAndReducedByAll) {
  const Subject s = subject({"model.bias=true"});
  const Oracle oracle = compute_oracle(s);
  const Outcome o =
      run_in_threads(s, oracle, layout("dp=4,etp=2,zero=3,bucket_bytes=1024", 4), {.jitter = {}, .seconds = 60});
  EXPECT_TRUE(o.agrees()) << o.error;
}

TEST_F(SubjectTest, RunsAgreeUnderDelays) {
  const Subject s = subject({"schedule.worker_lanes=true"});
  const Oracle oracle = compute_oracle(s);
  for (uint64_t seed : {1, 2}) {
    const Outcome o = run_in_threads(s, oracle, layout("tp=2,ep=2,etp=1,zero=1,worker_lanes=true", 4),
                                     {.jitter = seed, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << o.error;
  }
}

TEST_F(SubjectTest, PairsOfMicroBatchesWithRestoredChunksAgreeUnderDelays) {
  const Subject s = subject();
  const Oracle oracle = compute_oracle(s);
  for (const char* text : {"tp=2,ep=2,etp=1,overlap=micro_batches,memory_reuse=s4,moe=tokens,worker_lanes=true",
                           "tp=2,ep=2,overlap=micro_batches,memory_reuse=s1,duplicates=pause_after_gate,"
                           "esp_exchange=direct,moe=tokens,worker_lanes=true,transport=engine",
                           "pp=2,ep=2,pipeline=1f1b_overlap,memory_reuse=s2,worker_lanes=true,transport=engine"}) {
    EXPECT_EQ(s.illegal(layout(text, 4)), "");
    const Outcome o = run_in_threads(s, oracle, layout(text, 4), {.jitter = 1, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << text << ": " << o.error;
  }
}

TEST_F(SubjectTest, LimitedMemoryIsIllegalInPairsOfMicroBatches) {
  EXPECT_NE(subject()
                .illegal(layout("dp=2,ep=2,overlap=micro_batches,memory_reuse=s4_limited", 2))
                .find("needs schedule.moe.memory_limit: none"),
            std::string::npos);
}

TEST_F(SubjectTest, RunsAgreeThroughWindows) {
  const Subject s = subject();
  const Oracle oracle = compute_oracle(s);
  for (const char* text :
       {"ep=2,window=yes", "ep=2,window=yes,transport=engine,moe=tokens,worker_lanes=true", "pp=2,ep=2,window=yes"}) {
    const Outcome o = run_in_threads(s, oracle, layout(text, 4), {.jitter = 1, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << text << ": " << o.error;
  }
}

}  // namespace
}  // namespace hexad::tests
