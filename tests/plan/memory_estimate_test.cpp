// Predictions of `hexad validate`, compared with the allocator's counts.
#include "tools/plan/memory_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ranges>

#include "tests/plan/measured_memory.h"
#include "tests/support/on_device.h"
#include "tests/training/test_folder.h"
#include "tools/plan/memory_report.h"
#include "tools/train/recipe/stages.h"

namespace hexad::tests {

using namespace base;
using namespace verify;
namespace {

using namespace plan;

using device::Category;

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

void expect_near(const device::MemoryStats& memory, Category c, double predicted, double share) {
  const auto counted = static_cast<double>(memory.peak_in(c));
  if (predicted == 0)
    EXPECT_EQ(counted, 0) << name_of(c);
  else
    EXPECT_NEAR(counted / predicted, 1, share) << name_of(c) << ": counted " << counted << ", predicted " << predicted;
}

std::string shown(double predicted, int64_t bytes) {
  return fmt::format("{:7.3f} / {:7.3f} MB ({:+5.2f}%)", predicted / 1e6, static_cast<double>(bytes) / 1e6,
                     100 * (predicted / static_cast<double>(bytes) - 1));
}

constexpr double allowed = 0.01;

class MemoryEstimate : public testing::TestWithParam<Case> {};

// Compares the estimate of each rank's memory with the allocator's counts: persistent memory, memory kept for backward,
// and the total peak. A rank can need less than the estimate, but not more, if its peers are prompt.
TEST_P(MemoryEstimate, IsWithinOnePercentOfTheAllocatorsPeak) {
  const auto& [name, ranks, overrides] = GetParam();
  const Recipe recipe = small_recipe(measured(overrides));
  const mesh::Layout layout(recipe.parallel.sizes(), ranks);
  auto late = measured_peaks(recipe, ranks, Peers::late);
  const auto below_estimate = [&](int rank) {
    return static_cast<double>(late[rank].peak_total) < (1 - allowed) * estimate_memory(recipe, {}, layout, rank).total;
  };
  // Other processes can slow the machine so much that the usual pause does not make the peers late.
  if (recipe.parallel.pp > 1 && std::ranges::any_of(std::views::iota(0, ranks), below_estimate))
    late = measured_peaks(recipe, ranks, Peers::late, std::chrono::milliseconds(100));
  const auto prompt = ranks > 1 ? measured_peaks(recipe, ranks, Peers::prompt) : late;
  for (int rank = 0; rank < ranks; ++rank) {
    const device::MemoryStats& counted = late[rank];
    const auto estimate = estimate_memory(recipe, {}, layout, rank);
    fmt::print("{:<28} rank {}  kept {}  peak {}  with prompt peers {}\n", name, rank,
               shown(estimate.activations, counted.peak_in(Category::activation)),
               shown(estimate.total, counted.peak_total), shown(estimate.total, prompt[rank].peak_total));
    SCOPED_TRACE(cat("rank ", rank));
    expect_near(counted, Category::parameter, estimate.weights, allowed);
    expect_near(counted, Category::gradient, estimate.gradients, allowed);
    expect_near(counted, Category::optimizer, estimate.optimizer, allowed);
    // The peak on a device can be below the estimate. More offloaded memory than the estimate assumes has been freed if
    // kernels are late.
    const bool on_host = test_device() == device::DeviceKind::cpu;
    if (recipe.offload.activations && !on_host)
      EXPECT_LE(static_cast<double>(counted.peak_in(Category::activation)), (1 + allowed) * estimate.activations);
    else
      expect_near(counted, Category::activation, estimate.activations, allowed);
    const double most = (1 + allowed) * estimate.total;
    EXPECT_GE(static_cast<double>(counted.peak_total), (1 - allowed) * estimate.total) << counted.table();
    EXPECT_LE(static_cast<double>(counted.peak_total), most) << counted.table();
    EXPECT_LE(static_cast<double>(prompt[rank].peak_total), most) << prompt[rank].table();
    const double least = least_memory(recipe, {}, layout, rank);
    fmt::print("{:<28} rank {}  least {}\n", name, rank, shown(least, prompt[rank].peak_total));
    // least_memory() and the estimate may extrapolate from different numbers of micro-batches under gpipe.
    EXPECT_LE(least, train::pipeline_of(recipe).kind == pp::PipelineKind::gpipe ? most : estimate.total);
    EXPECT_GE(static_cast<double>(prompt[rank].peak_total), (1 - allowed) * least) << prompt[rank].table();
    EXPECT_GE(estimate.blocks, estimate.total) << "blocks are rounded up";
  }
}

TEST(MemoryOfPromptPeers, HasARowInTheReportOnlyUnderZeroTwoAndThree) {
  const train::Extensions none;
  const auto has_row = [&](const std::string& zero) {
    const Recipe recipe = small_recipe(measured({zero, "parallel.cp=2", "distributed.bucket_bytes=auto"}));
    return MemoryReport(recipe, none, 2).table().find("  prompt peers ") != std::string::npos;
  };
  EXPECT_FALSE(has_row("parallel.zero=1"));
  EXPECT_TRUE(has_row("parallel.zero=2")) << "late peers make a rank hold a bucket as large as the model";
}

// Each rank has two of the four experts.
TEST(MemoryOfTheNeediest, IsOnTheRankOfTheExpertsInTheTrace) {
  const Scratch scratch;
  std::ofstream(scratch / "routes") << "2 3\n";
  const Recipe recipe =
      small_recipe(measured({"parallel.ep=2", "model.moe.routing=trace", "model.moe.trace=" + scratch / "routes"}));
  const mesh::Layout layout(recipe.parallel.sizes(), 2);
  const auto of_rank = [&](int rank, RoutingLoad load) {
    return estimate_memory(recipe, {}, layout, rank, load).total;
  };
  const double loaded = of_rank(1, RoutingLoad::even), idle = of_rank(0, RoutingLoad::even);
  EXPECT_GT(loaded, 1.2 * idle);
  EXPECT_EQ(estimate_memory(recipe, {}, 2).total, loaded);
  EXPECT_NEAR(of_rank(0, RoutingLoad::one_rank), loaded, 0.01 * loaded) << "the load one_rank replaces the trace";
}

TEST(MemoryOfTheNeediest, IsOnTheRankWithTheLargestPiecesOfExperts) {
  const Recipe recipe = small_recipe(measured({"parallel.etp=2", "model.moe.expert_hidden=97"}));
  const mesh::Layout layout(recipe.parallel.sizes(), 2);
  const auto weights = [&](int rank) { return estimate_memory(recipe, {}, layout, rank).weights; };
  EXPECT_GT(weights(1), weights(0));
  EXPECT_EQ(estimate_memory(recipe, {}, 2).weights, weights(1));
}

struct Layout {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

class LayoutMemory : public testing::TestWithParam<std::tuple<Layout, int, std::string>> {};

TEST_P(LayoutMemory, IsWithinOnePercentOfTheEstimateForPersistentTensors) {
  const auto& [layout, zero, precision] = GetParam();
  std::vector<std::string> all{"model.hidden=128",
                               "model.vocab=251",
                               "batch.micro=1",
                               "batch.global=4",
                               "model.context=16",
                               cat("parallel.zero=", zero),
                               "train.precision=" + precision};
  all.insert(all.end(), layout.overrides.begin(), layout.overrides.end());
  const Recipe recipe = small_recipe(measured(all));
  const device::MemoryStats memory = measured_peaks(recipe, layout.ranks, Peers::late).front();
  const auto estimate = estimate_memory(recipe, {}, mesh::Layout(recipe.parallel.sizes(), layout.ranks), 0);
  fmt::print("{:<8} zero {} {:<4} weights {}  gradients {}  optimizer {}  peak {}\n", layout.name, zero, precision,
             shown(estimate.weights, memory.peak_in(Category::parameter)),
             shown(estimate.gradients, memory.peak_in(Category::gradient)),
             shown(estimate.optimizer, memory.peak_in(Category::optimizer)), shown(estimate.total, memory.peak_total));
  expect_near(memory, Category::parameter, estimate.weights, allowed);
  expect_near(memory, Category::gradient, estimate.gradients, allowed);
  expect_near(memory, Category::optimizer, estimate.optimizer, allowed);
}

INSTANTIATE_TEST_SUITE_P(, LayoutMemory,
                         testing::Combine(testing::Values(Layout{"Two", 2, {}}, Layout{"Experts", 4, {"parallel.ep=2"}},
                                                          Layout{"Tensors", 4, {"parallel.tp=2", "parallel.sp=true"}}),
                                          testing::Values(0, 1, 2, 3), testing::Values("f32", "bf16")),
                         [](const auto& i) {
                           return cat(std::get<0>(i.param).name, "Zero", std::get<1>(i.param), "_",
                                      std::get<2>(i.param));
                         });

INSTANTIATE_TEST_SUITE_P(
    , MemoryEstimate,
    testing::Values(
        Case{"Kept", 1, {}}, Case{"Norms", 1, {"recompute=norms"}}, Case{"Attention", 1, {"recompute=attention"}},
        Case{"Blocks", 1, {"recompute=block"}}, Case{"Bf16", 1, {"train.precision=bf16"}},
        Case{"Bf16Attention", 1, {"train.precision=bf16", "recompute=attention"}},
        Case{"Bf16Norms", 1, {"train.precision=bf16", "recompute=norms"}},
        Case{"Bf16Blocks", 1, {"train.precision=bf16", "recompute=block"}},
        Case{"Bf16Logits", 1, {"train.precision=bf16", "train.logits_dtype=bf16"}},
        Case{"Bf16LogitsOfTensors", 2, {"train.precision=bf16", "train.logits_dtype=bf16", "parallel.tp=2"}},
        Case{"Bf16Moments", 1, {"train.precision=bf16", "optim.moment_dtype=bf16"}},
        Case{"Rests", 1, {"train.precision=bf16", "optim.main_weights=rest"}}, Case{"Sgd", 1, {"optim.name=sgd"}},
        Case{"Muon", 1, {"optim.name=muon"}}, Case{"MuonOfCutExperts", 2, {"parallel.tp=2", "optim.name=muon"}},
        Case{"Dense", 1, {"model.moe.experts=0"}},
        Case{"Frozen", 1, {"optim.freeze=[embedding.weight, layers.0.*, layers.1.moe.experts.*]"}},
        Case{"FrozenExperts", 2, {"parallel.ep=2", "parallel.zero=2", "optim.freeze=[\"*.experts.*\"]"}},
        Case{"SharedAndResidual", 1, {"model.moe.shared_experts=1", "model.moe.dense_residual=true"}},
        Case{"LayerNormGelu", 1, {"model.norm=layer_norm", "model.moe.expert=gelu", "model.bias=true"}},
        Case{"Tied", 1, {"model.tied_embedding=true", "model.position=learned"}},
        Case{"PredictionBlocks", 1, {"model.prediction_blocks=2"}},
        Case{"PredictingStages", 2, {"parallel.pp=2", "model.prediction_blocks=1"}},
        Case{"Dropping", 1, {"model.moe.capacity_factor=1", "model.moe.aux_loss.scope=sequence"}},
        // A token can keep all experts, so the number of rows does not depend on the scores.
        Case{"ExpertsChoose",
             1,
             {"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.top_k=4",
              "model.moe.capacity_factor=0.5", "model.moe.aux_loss.coefficient=0", "model.moe.routing=model"}},
        Case{"OffloadedActivations", 1, {"offload.activations=true", "offload.min_bytes=4096"}},
        Case{"OffloadedStates", 1, {"offload.optimizer=file"}}, Case{"Tensors", 2, {"parallel.tp=2"}},
        Case{"TensorsAndSequences", 2, {"parallel.tp=2", "parallel.sp=true", "model.vocab=152"}},
        Case{"TensorsBlocks", 2, {"parallel.tp=2", "parallel.sp=true", "recompute=block"}},
        Case{"ExpertTensors", 4, {"parallel.ep=2", "parallel.tp=2"}},
        Case{"DirectExchange", 4, {"parallel.ep=2", "parallel.tp=2", "schedule.moe.esp_exchange=direct"}},
        Case{"Ring", 2, {"parallel.cp=2"}}, Case{"Gathered", 2, {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
        Case{"Ulysses", 2, {"parallel.cp=2", "parallel.cp_kind=ulysses"}},
        Case{"RowsOfTokens", 2, {"parallel.ep=2", "schedule.moe.rows=token"}},
        Case{"ByNodes", 2, {"parallel.ep=2", "schedule.moe.chunk_by=nodes", "schedule.worker_lanes=false"}},
        Case{"ByExperts", 2, {"parallel.ep=2", "schedule.moe.chunk_by=experts", "schedule.worker_lanes=false"}},
        Case{"S1", 1, {"schedule.moe.memory_reuse=s1"}}, Case{"S2", 1, {"schedule.moe.memory_reuse=s2"}},
        Case{"S3Bf16", 1, {"schedule.moe.memory_reuse=s3", "train.precision=bf16"}},
        Case{"S4", 1, {"schedule.moe.memory_reuse=s4"}},
        Case{"InTurns", 1, {"schedule.pipeline.overlap=micro_batches"}}, Case{"Experts", 2, {"parallel.ep=2"}},
        // The peak would depend on the timing of the lanes if lanes were threads.
        Case{"ExpertsS4Cut",
             2,
             {"parallel.ep=2", "schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens",
              "schedule.worker_lanes=false"}},
        Case{"ExpertsInTurns", 2, {"parallel.ep=2", "schedule.pipeline.overlap=micro_batches"}},
        Case{"ExpertsS4InTurns",
             2,
             {"parallel.ep=2", "schedule.pipeline.overlap=micro_batches", "schedule.moe.memory_reuse=s4",
              "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2", "schedule.worker_lanes=false"}},
        Case{"ZeroOne", 2, {"parallel.zero=1"}},
        Case{"ZeroTwo", 2, {"parallel.zero=2", "train.precision=bf16", "distributed.bucket_bytes=256KiB"}},
        Case{"ZeroTwoRing", 2, {"parallel.zero=2", "parallel.cp=2"}},
        Case{"ZeroTwoRingOfWholeBuckets", 2, {"parallel.zero=2", "parallel.cp=2", "distributed.bucket_bytes=auto"}},
        Case{"ZeroThree", 2, {"parallel.zero=3", "parallel.ep=2"}},
        Case{"ZeroThreeStages", 4, {"parallel.zero=3", "parallel.pp=2"}},
        Case{"ZeroThreeExperts", 4, {"parallel.zero=3", "parallel.ep=2", "distributed.bucket_bytes=64KiB"}},
        Case{"TiedStagesZeroTwo", 2, {"parallel.pp=2", "parallel.zero=2", "model.tied_embedding=true"}},
        Case{"TiedStagesZeroThree", 4, {"parallel.pp=2", "parallel.zero=3", "model.tied_embedding=true"}},
        Case{"TiedZeroBubble",
             2,
             {"parallel.pp=2", "parallel.zero=3", "schedule.pipeline.kind=zb_h1", "model.tied_embedding=true"}},
        Case{"TiedInterleaved",
             2,
             {"parallel.pp=2", "parallel.zero=2", "schedule.pipeline.kind=interleaved", "model.tied_embedding=true"}},
        Case{"Gpipe", 2, {"parallel.pp=2", "schedule.pipeline.kind=gpipe"}},
        Case{"GpipeOfMany", 2, {"parallel.pp=2", "schedule.pipeline.kind=gpipe", "batch.global=76"}},
        // The update needs more memory than the passes if there are few of these small micro-batches.
        Case{"GpipeOfSmall",
             2,
             {"parallel.pp=2", "schedule.pipeline.kind=gpipe", "model.context=8", "batch.micro=1", "batch.global=40"}},
        Case{"OneFOneB", 4, {"parallel.pp=4"}},
        Case{"OneFOneBBlocks", 4, {"parallel.pp=4", "recompute=block", "train.precision=bf16"}},
        Case{"OneFOneBS4", 2, {"parallel.pp=2", "schedule.moe.memory_reuse=s4"}},
        Case{"OneFOneBInTurns", 2, {"parallel.pp=2", "schedule.pipeline.overlap=micro_batches"}},
        Case{"Interleaved", 2, {"parallel.pp=2", "schedule.pipeline.kind=interleaved"}},
        Case{"ZeroBubble", 4, {"parallel.pp=4", "schedule.pipeline.kind=zb_h1"}},
        Case{"ZeroBubbleBf16", 2, {"parallel.pp=2", "schedule.pipeline.kind=zb_h1", "train.precision=bf16"}},
        Case{"ZeroBubbleAttention", 2, {"parallel.pp=2", "schedule.pipeline.kind=zb_h1", "recompute=attention"}},
        Case{"ZeroBubbleV", 2, {"parallel.pp=2", "schedule.pipeline.kind=zb_v"}},
        Case{"DualPipeV", 2, {"parallel.pp=2", "schedule.pipeline.kind=dualpipe_v"}},
        Case{"DualPipeVInTurns",
             2,
             {"parallel.pp=2", "schedule.pipeline.kind=dualpipe_v", "schedule.pipeline.overlap=micro_batches"}}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
