// Compares steps that repeat recorded passes with steps that run all passes. The records of both steps have the same
// operations (sizes, lanes, dependencies and order), groups and spans.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/plan/equal_records.h"
#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_record.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int64_t micro_batches = 9;

Recipe recipe_with(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=4", "train.precision=f32", "batch.micro=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

// Returns the record of a step that runs all micro-batches. Two steps run before the recorded step: a step of one
// micro-batch, and a step like the recorded step. Under ZeRO-1 and 2, the recorded step hides the gathers of weights
// of the previous step. Under ZeRO-3, the previous step determines which weights are gathered ahead.
StepRecord run_all(const Recipe& r, int world, int rank, const RoutingLoad& load) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, mesh::Layout(r.parallel.sizes(), world), rank, load, RunOnMeta::Record::issues);
  run.follow_spans();
  run.step(1);
  run.step(micro_batches);
  return record_step(run, micro_batches, rank);
}

// Returns the record of a step that repeats all passes.
StepRecord run_few(const Recipe& r, int world, int rank, const RoutingLoad& load) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, mesh::Layout(r.parallel.sizes(), world), rank, load, RunOnMeta::Record::issues);
  run.follow_spans();
  run.repeat_passes();
  run.step(micro_batches);
  const int64_t before = run.repeated_passes();
  StepRecord record = record_step(run, micro_batches, rank);
  EXPECT_GE(run.repeated_passes() - before, 2 * (micro_batches - 1))
      << "a forward and a backward of each repeated micro-batch";
  return record;
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class RepeatedPasses : public testing::TestWithParam<Case> {};

TEST_P(RepeatedPasses, GiveTheRecordOfTheWholeStep) {
  for (const device::DeviceKind device : {device::DeviceKind::cpu, device::DeviceKind::cuda}) {
    Recipe r = recipe_with(GetParam().overrides);
    r.device = device;
    ASSERT_TRUE(can_repeat_passes(r, RoutingLoad::even));
    for (const int rank : std::set{0, GetParam().ranks / 2, GetParam().ranks - 1}) {
      SCOPED_TRACE(base::cat("rank ", rank, ", device ", static_cast<int>(device)));
      expect_equal(run_all(r, GetParam().ranks, rank, RoutingLoad::even),
                   run_few(r, GetParam().ranks, rank, RoutingLoad::even));
    }
  }
}

const std::string stages = "parallel.pp=2";

INSTANTIATE_TEST_SUITE_P(
    , RepeatedPasses,
    testing::Values(
        Case{"OneStage", 1, {}}, Case{"Stages", 2, {stages}}, Case{"ManyStages", 4, {"parallel.pp=4"}},
        Case{"GPipe", 2, {stages, "schedule.pipeline.kind=gpipe"}},
        Case{"Interleaved", 2, {stages, "schedule.pipeline.kind=interleaved"}},
        Case{"DelayedWeights", 4, {"parallel.pp=4", "schedule.pipeline.kind=zb_h1"}},
        Case{"Vee", 2, {stages, "schedule.pipeline.kind=zb_v"}},
        Case{"DualPipe", 2, {stages, "schedule.pipeline.kind=dualpipe_v"}},
        Case{"ManyStagesOfDualPipe", 4, {"parallel.pp=4", "model.layers=8", "schedule.pipeline.kind=dualpipe_v"}},
        Case{"DualPipeZero1", 4, {stages, "parallel.ep=2", "parallel.zero=1", "schedule.pipeline.kind=dualpipe_v"}},
        Case{"DualPipeTied", 2, {stages, "model.tied_embedding=true", "schedule.pipeline.kind=dualpipe_v"}},
        Case{"Data", 4, {stages}}, Case{"Zero1", 4, {stages, "parallel.zero=1"}},
        Case{"Experts", 4, {stages, "parallel.ep=2"}},
        Case{"Chunks", 4, {stages, "parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}},
        Case{"Context", 4, {stages, "parallel.cp=2"}}, Case{"Tensor", 4, {stages, "parallel.tp=2", "parallel.sp=true"}},
        Case{"Blocks", 2, {stages, "recompute=block"}}, Case{"Norms", 2, {stages, "recompute=norms"}},
        Case{"Offload", 2, {stages, "offload.activations=true", "offload.min_bytes=0"}},
        Case{"Prediction", 2, {stages, "model.prediction_blocks=1"}},
        Case{"Windows", 2, {stages, "model.window=3", "model.full_attention_every=2"}},
        Case{"Tied", 2, {stages, "model.tied_embedding=true"}},
        Case{"TiedOnOneRank", 2, {stages, "schedule.pipeline.kind=zb_v", "model.tied_embedding=true"}},
        Case{"RoundedGradients", 4, {stages, "train.precision=bf16", "optim.grad_dtype=bf16"}}),
    [](const auto& c) { return c.param.name; });

// Returns a case with small buckets, so that a layer's weights and gradients are in several buckets.
Case divided(const char* name, int ranks, const char* zero, std::vector<std::string> overrides) {
  overrides.push_back(base::cat("parallel.zero=", zero));
  overrides.push_back("distributed.bucket_bytes=8192");
  return {base::cat(name, "Zero", zero), ranks, std::move(overrides)};
}

std::vector<Case> divided_layouts() {
  std::vector<Case> cases;
  for (const char* zero : {"2", "3"}) {
    cases.push_back(divided("OneStage", 4, zero, {}));
    cases.push_back(divided("Stages", 4, zero, {stages}));
    cases.push_back(divided("ManyStages", 8, zero, {"parallel.pp=4"}));
    cases.push_back(divided("GPipe", 4, zero, {stages, "schedule.pipeline.kind=gpipe"}));
    cases.push_back(divided("Experts", 8, zero, {stages, "parallel.ep=2"}));
    cases.push_back(divided("ExpertsOnEveryRank", 4, zero, {stages, "parallel.ep=2"}));
    cases.push_back(divided("Tensor", 8, zero, {stages, "parallel.tp=2", "parallel.sp=true"}));
    cases.push_back(divided("Context", 4, zero, {stages, "parallel.cp=2"}));
    cases.push_back(divided("Blocks", 4, zero, {stages, "recompute=block"}));
    cases.push_back(divided("Offload", 4, zero, {stages, "offload.activations=true", "offload.min_bytes=0"}));
    cases.push_back(divided("Prediction", 4, zero, {stages, "model.prediction_blocks=1"}));
    cases.push_back(divided("Tied", 4, zero, {stages, "model.tied_embedding=true"}));
    cases.push_back(divided("RoundedGradients", 4, zero, {stages, "train.precision=bf16", "optim.grad_dtype=bf16"}));
    cases.push_back(divided("Frozen", 4, zero, {stages, "optim.freeze=[\"layers.1.*\"]"}));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Divided, RepeatedPasses, testing::ValuesIn(divided_layouts()),
                         [](const auto& c) { return c.param.name; });

TEST(RepeatedPassesOfALoad, GiveTheRecordOfTheWholeStep) {
  const Recipe r = recipe_with({stages, "parallel.ep=2", "model.moe.routing=balanced"});
  for (const RoutingLoad& load :
       {RoutingLoad(RoutingLoad::p99), RoutingLoad(ExpertShares(4, std::vector<double>{0.4, 0.3, 0.2, 0.1}))}) {
    ASSERT_TRUE(can_repeat_passes(r, load));
    expect_equal(run_all(r, 4, 0, load), run_few(r, 4, 0, load));
  }
}

TEST(RepeatedPassesOfRecords, GiveTheRecordsOfWholeSteps) {
  const Recipe r = recipe_with({"parallel.pp=4"});
  const std::vector<int64_t> counts{micro_batches, 6};
  const mesh::Layout layout(r.parallel.sizes(), 4);
  const std::vector<StepRecord> records = record_steps(r, {}, layout, 1, RoutingLoad::even, counts);
  ASSERT_EQ(records.size(), 2U);
  expect_equal(run_all(r, 4, 1, RoutingLoad::even), records[0]);
  EXPECT_LT(records[1].issues.size(), records[0].issues.size());
}

// Without ZeRO-3, record_steps() runs one step before all recorded steps. run_all() runs an equal step before its
// recorded step. The records must be equal.
TEST(RecordsWithoutZero3, EqualRecordsAfterAnEqualStep) {
  for (const device::DeviceKind device : {device::DeviceKind::cpu, device::DeviceKind::cuda})
    for (const char* pipeline : {"parallel.pp=1", "parallel.pp=2"})
      for (const char* zero : {"parallel.zero=0", "parallel.zero=1", "parallel.zero=2"}) {
        Recipe r = recipe_with({pipeline, zero, "distributed.bucket_bytes=8192"});
        r.device = device;
        const mesh::Layout layout(r.parallel.sizes(), 4);
        const StepRecord expected = run_all(r, 4, 0, RoutingLoad::even);
        for (const size_t at : {size_t{0}, size_t{1}}) {
          SCOPED_TRACE(base::cat(pipeline, ", ", zero, ", device ", static_cast<int>(device), ", record ", at));
          std::vector<int64_t> counts{6, 6};
          counts[at] = micro_batches;
          expect_equal(expected, record_steps(r, {}, layout, 0, RoutingLoad::even, counts)[at]);
        }
      }
}

TEST(RepeatedPassesUnderZero3, AreNotAssumedIfGradientsOfMicroBatchesMix) {
  for (const char* zero : {"parallel.zero=2", "parallel.zero=3"}) {
    SCOPED_TRACE(zero);
    EXPECT_TRUE(can_repeat_passes(recipe_with({stages, zero}), RoutingLoad::even));
    for (const char* kind : {"interleaved", "zb_h1", "zb_v", "dualpipe_v"})
      EXPECT_FALSE(
          can_repeat_passes(recipe_with({stages, zero, base::cat("schedule.pipeline.kind=", kind)}), RoutingLoad::even))
          << kind;
  }
}

TEST(EqualPasses, AreNotAssumedIfMicroBatchesMayDiffer) {
  EXPECT_TRUE(has_equal_passes(recipe_with({stages}), RoutingLoad::even));
  for (const char* zero : {"parallel.zero=2", "parallel.zero=3"})
    EXPECT_FALSE(has_equal_passes(recipe_with({stages, zero}), RoutingLoad::even)) << zero;
  EXPECT_FALSE(has_equal_passes(recipe_with({stages, "model.moe.routing=zipf"}), RoutingLoad::even));
  Recipe pairs = recipe_with({stages});
  pairs.schedule.pipeline.overlap = pp::Overlap::micro_batches;
  EXPECT_FALSE(has_equal_passes(pairs, RoutingLoad::even));
  Recipe other = recipe_with({stages});
  other.model.moe.router = "a program's router";
  EXPECT_FALSE(has_equal_passes(other, RoutingLoad::even));
}

}  // namespace
}  // namespace hexad::tests
