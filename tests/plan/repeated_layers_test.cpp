// Compares two kinds of steps. The first kind runs one of several equal layers and repeats this layer. The second kind
// runs all layers. Their records are equal (equal_records.h). The peaks of memory are also equal: the peak of each
// category, of all categories together, and of whole blocks.
#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <utility>

#include "tests/plan/equal_records.h"
#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_on_meta.h"
#include "tools/plan/step_record.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int64_t micro_batches = 3;

Recipe recipe_with(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=10", "train.precision=f32", "batch.micro=1",
                               "batch.global=40"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::string stages = "parallel.pp=2";

// Calls f(recipe, layout, rank) for the first and the last rank on CPUs, and for the last rank on GPUs.
template <class F>
void for_each_rank(const Case& c, const F& f) {
  using device::DeviceKind;
  for (const auto& [device, rank] : std::set<std::pair<DeviceKind, int>>{
           {DeviceKind::cpu, 0}, {DeviceKind::cpu, c.ranks - 1}, {DeviceKind::cuda, c.ranks - 1}}) {
    SCOPED_TRACE(base::cat("rank ", rank, ", device ", static_cast<int>(device)));
    Recipe r = recipe_with(c.overrides);
    r.device = device;
    f(r, mesh::Layout(r.parallel.sizes(), c.ranks), rank);
  }
}

// Returns the record of a step of `recorded` micro-batches that runs all layers and passes. Before this step, one step
// runs for each number of micro-batches in `before`.
StepRecord run_all(const Recipe& r, const mesh::Layout& layout, int rank, std::initializer_list<int64_t> before,
                   int64_t recorded) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, layout, rank, RoutingLoad::even, RunOnMeta::Record::issues);
  run.follow_spans();
  for (const int64_t n : before) run.step(n);
  return record_step(run, recorded, rank);
}

// Returns the record of a step that repeats layers. The step also repeats passes if `passes` is true. A rank with many
// layers then records passes that contain repeated layers.
StepRecord run_few(const Recipe& r, const mesh::Layout& layout, int rank, bool passes) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, layout, rank, RoutingLoad::even, RunOnMeta::Record::issues);
  run.follow_spans();
  run.repeat_layers();
  if (passes)
    run.repeat_passes();
  else
    run.step(2);
  run.step(micro_batches);
  StepRecord record = record_step(run, micro_batches, rank);
  EXPECT_GT(passes ? run.repeated_passes() : run.repeated_layers(), 0);
  EXPECT_FALSE(run.failed());
  return record;
}

class RepeatedLayers : public testing::TestWithParam<Case> {};

TEST_P(RepeatedLayers, GiveTheRecordOfTheWholeStep) {
  for_each_rank(GetParam(), [](const Recipe& r, const mesh::Layout& layout, int rank) {
    ASSERT_TRUE(can_repeat_layers(r, RoutingLoad::even));
    const StepRecord expected = run_all(r, layout, rank, {1, micro_batches}, micro_batches);
    expect_equal(expected, run_few(r, layout, rank, false));
    expect_equal(expected, run_few(r, layout, rank, true));
  });
}

class MemoryOfRepeatedLayers : public testing::TestWithParam<Case> {};

TEST_P(MemoryOfRepeatedLayers, EqualsTheMemoryOfTheWholeStep) {
  for_each_rank(GetParam(), [](const Recipe& r, const mesh::Layout& layout, int rank) {
    const train::Extensions extensions;
    RunOnMeta all(r, extensions, layout, rank, RoutingLoad::even);
    RunOnMeta few(r, extensions, layout, rank, RoutingLoad::even, RunOnMeta::Record::parts);
    few.repeat_layers();
    all.step(1), few.step(2);
    ASSERT_FALSE(few.failed());
    const auto peaks = [](RunOnMeta& run) {
      device::DeviceContext& context = run.instance().context;
      context.allocator()->reset_peaks(), context.offload_allocator()->reset_peaks();
      run.step(micro_batches);
      return std::pair(context.allocator()->stats(), context.offload_allocator()->stats());
    };
    const int64_t before = few.repeated_layers();
    const auto [expected, expected_offload] = peaks(all);
    const auto [actual, actual_offload] = peaks(few);
    EXPECT_GT(few.repeated_layers(), before);
    EXPECT_EQ(expected.peak, actual.peak);
    EXPECT_EQ(expected.peak_total, actual.peak_total);
    EXPECT_EQ(expected.peak_held, actual.peak_held);
    EXPECT_EQ(expected.used, actual.used);
    EXPECT_EQ(expected.held, actual.held);
    EXPECT_EQ(expected_offload.peak, actual_offload.peak);
    EXPECT_EQ(expected_offload.used, actual_offload.used);
  });
}

TEST_P(MemoryOfRepeatedLayers, IsEqualIfOnlyMemoryIsWanted) {
  for_each_rank(GetParam(), [](const Recipe& r, const mesh::Layout& layout, int rank) {
    const StepOnMeta expected = step_on_meta(r, {}, layout, rank, RoutingLoad::even, Wanted::all),
                     actual = step_on_meta(r, {}, layout, rank, RoutingLoad::even, Wanted::memory);
    EXPECT_EQ(expected.memory.peak, actual.memory.peak);
    EXPECT_EQ(expected.memory.peak_total, actual.memory.peak_total);
    EXPECT_EQ(expected.memory.peak_held, actual.memory.peak_held);
    EXPECT_EQ(expected.offloaded, actual.offloaded);
  });
}

std::vector<Case> layouts() {
  return {
      {"OneStage", 1, {}},
      {"Dense", 1, {"model.moe.experts=0", "model.moe.aux_loss.coefficient=0", "model.mlp_hidden=20"}},
      {"DenseAndExperts", 1, {"model.moe.every=2"}},
      {"DenseFirst", 2, {stages, "model.moe.dense_layers=3"}},
      {"SharedExperts", 2, {stages, "model.moe.shared_experts=1"}},
      {"DenseResidual", 2, {stages, "model.moe.dense_residual=true"}},
      {"Windows", 2, {stages, "model.window=3", "model.full_attention_every=2"}},
      {"Stages", 2, {stages}},
      {"ManyLayers", 2, {stages, "model.layers=20"}},
      {"GPipe", 2, {stages, "schedule.pipeline.kind=gpipe"}},
      {"Interleaved", 2, {stages, "schedule.pipeline.kind=interleaved", "model.layers=16"}},
      {"DelayedWeights", 2, {stages, "schedule.pipeline.kind=zb_h1"}},
      {"DelayedWeightsOfManyLayers", 2, {stages, "schedule.pipeline.kind=zb_h1", "model.layers=20"}},
      {"Vee", 2, {stages, "schedule.pipeline.kind=zb_v", "model.layers=16"}},
      {"Zero1", 4, {stages, "parallel.zero=1", "distributed.bucket_bytes=8192"}},
      {"Experts", 4, {stages, "parallel.ep=2"}},
      {"Chunks", 4, {stages, "parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}},
      {"Context", 4, {stages, "parallel.cp=2"}},
      {"Tensor", 4, {stages, "parallel.tp=2", "parallel.sp=true"}},
      {"Attention", 2, {stages, "recompute=attention"}},
      {"Blocks", 2, {stages, "recompute=block"}},
      {"Norms", 2, {stages, "recompute=norms"}},
      {"DelayedBlocks", 2, {stages, "schedule.pipeline.kind=zb_h1", "recompute=block"}},
      {"Offload", 2, {stages, "offload.activations=true", "offload.min_bytes=0"}},
      {"OffloadedBlocks", 2, {stages, "offload.activations=true", "offload.min_bytes=0", "recompute=block"}},
      {"Prediction", 2, {stages, "model.prediction_blocks=1"}},
      {"Tied", 2, {stages, "model.tied_embedding=true"}},
      {"Frozen", 2, {stages, "optim.freeze=[\"layers.2.*\"]"}},
      {"Bf16", 2, {stages, "train.precision=bf16"}},
      {"RoundedGradients", 4, {stages, "train.precision=bf16", "optim.grad_dtype=bf16"}},
  };
}

std::vector<Case> divided_layouts() {
  std::vector<Case> cases;
  for (const char* zero : {"parallel.zero=2", "parallel.zero=3"})
    for (const Case& c : {Case{"OneStage", 2, {}}, Case{"Stages", 4, {stages}},
                          Case{"GPipe", 4, {stages, "schedule.pipeline.kind=gpipe"}},
                          Case{"Experts", 8, {stages, "parallel.ep=2"}}, Case{"Blocks", 4, {stages, "recompute=block"}},
                          Case{"RoundedGradients", 4, {stages, "train.precision=bf16", "optim.grad_dtype=bf16"}},
                          Case{"Tied", 4, {stages, "model.tied_embedding=true"}}}) {
      Case& divided = cases.emplace_back(c);
      divided.name += zero[std::string_view("parallel.zero=").size()];
      divided.overrides.emplace_back(zero);
      divided.overrides.emplace_back("distributed.bucket_bytes=8192");
    }
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(, RepeatedLayers, testing::ValuesIn(layouts()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Divided, RepeatedLayers, testing::ValuesIn(divided_layouts()), name_of_case);
INSTANTIATE_TEST_SUITE_P(, MemoryOfRepeatedLayers, testing::ValuesIn(layouts()), name_of_case);

// Under ZeRO-3, the units in which weights are gathered may end at other parameters in each of the equal layers. The
// layers then make different calls and cannot be repeated. The step that repeat_passes() runs detects the different
// calls.
TEST(RepeatedLayersOfRecords, AreGivenUpWhereUnitsDivideEqualLayersDifferently) {
  const std::vector<int64_t> counts{4};
  int given_up = 0;
  for (int64_t unit = 4 << 10; unit < 2 << 20; unit += unit / 2) {
    SCOPED_TRACE(unit);
    const Recipe r = recipe_with(
        {"parallel.zero=3", "model.layers=8", "batch.global=8", base::cat("distributed.bucket_bytes=", unit)});
    const mesh::Layout layout(r.parallel.sizes(), 2);
    const train::Extensions extensions;
    expect_equal(run_all(r, layout, 0, {4, 4}, 4), record_steps(r, {}, layout, 0, RoutingLoad::even, counts).front());
    RunOnMeta repeating(r, extensions, layout, 0, RoutingLoad::even, RunOnMeta::Record::issues);
    repeating.follow_spans();
    repeating.repeat_layers(), repeating.repeat_passes();
    given_up += repeating.failed();
  }
  EXPECT_GT(given_up, 0);
}

// A step of one micro-batch repeats layers, but no passes.
TEST(RepeatedLayersOfRecords, GiveTheRecordsOfWholeSteps) {
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1", "parallel.zero=3"}) {
    SCOPED_TRACE(zero);
    const Recipe r = recipe_with({zero, "batch.global=2"});
    const mesh::Layout layout(r.parallel.sizes(), 2);
    const std::vector<int64_t> counts{1};
    expect_equal(run_all(r, layout, 0, {1, 1}, 1), record_steps(r, {}, layout, 0, RoutingLoad::even, counts).front());
  }
}

// The first layer with experts allocates the windows, unlike the later layers with experts. The first layer with
// experts is also the recorded layer, because the layer before it is dense. The later layers make other calls than the
// recorded layer, so all layers must run.
TEST(LayersThatDiffer, RunInsteadOfBeingRepeated) {
  const Recipe r = recipe_with({"parallel.ep=2", "schedule.moe.all_to_all=window", "model.moe.dense_layers=1"});
  const mesh::Layout layout(r.parallel.sizes(), 2);
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, layout, 0, RoutingLoad::even, RunOnMeta::Record::parts);
  run.repeat_layers();
  run.step(2);
  EXPECT_TRUE(run.failed());
  const device::MemoryStats expected = step_on_meta(r, {}, layout, 0, RoutingLoad::even, Wanted::all).memory,
                            actual = step_on_meta(r, {}, layout, 0, RoutingLoad::even, Wanted::memory).memory;
  EXPECT_EQ(expected.peak, actual.peak);
  EXPECT_EQ(expected.peak_total, actual.peak_total);
}

TEST(RepeatedLayersOfRecords, AreNotAssumedIfLayersMayDiffer) {
  EXPECT_TRUE(can_repeat_layers(recipe_with({stages}), RoutingLoad::even));
  const RoutingLoad given(ExpertShares(10, std::vector<double>{0.4, 0.3, 0.2, 0.1}));
  EXPECT_FALSE(can_repeat_layers(recipe_with({stages}), given));
  EXPECT_FALSE(can_repeat_layers(recipe_with({stages, "model.moe.routing=zipf"}), RoutingLoad::even));
  EXPECT_FALSE(can_repeat_layers(recipe_with({stages, "schedule.pipeline.kind=dualpipe_v"}), RoutingLoad::even));
}

}  // namespace
}  // namespace hexad::tests
