// Steps of many micro-batches, extrapolated from two short steps.
#include "tools/plan/step_forecast.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/within_memory.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int stages = 4, micro_batches = 37;

Recipe recipe_with(const std::string& kind) {
  return recipe_of(
      "model: {layers: 8, hidden: 512, heads: 8, context: 512, vocab: 1024,\n"
      "        moe: {experts: 4, top_k: 2, expert_hidden: 512}}\n"
      "batch: {global: 37, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "device: cuda\n"
      "data: {synthetic: true}\n",
      {"parallel.pp=4", "schedule.pipeline.kind=" + kind}, stages);
}

// Compares the extrapolated step with the simulated step of all micro-batches. Each stage is on its own node.
void expect_whole(const Recipe& r) {
  const train::Extensions extensions;
  const StepPrices prices(Prices(two_nodes()), {0, 1, 2, 3});
  const mesh::Layout layout(r.parallel.sizes(), stages);
  const StepForecast some = forecast_step(r, extensions, layout, prices);
  ASSERT_EQ(some.micro_batches, micro_batches);
  ASSERT_LT(some.simulated_micro_batches, micro_batches) << "the step must be extrapolated";
  const StepForecast all = with_all_micro_batches(some, r, extensions, layout, prices, RoutingLoad::even);
  EXPECT_NEAR(some.seconds, all.seconds, 0.02 * all.seconds);
}

class ExtrapolatedStep : public testing::TestWithParam<const char*> {};

TEST_P(ExtrapolatedStep, IsWithin2PercentOfAllMicroBatches) { expect_whole(recipe_with(GetParam())); }

INSTANTIATE_TEST_SUITE_P(, ExtrapolatedStep,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v"),
                         [](const auto& c) { return base::cat("kind_", c.param); });

device::Issue gather(int64_t bytes) {
  return {"comm", "all_gather", device::Lane::compute, device::CommunicationWork{0, bytes, 0}, -1, {}};
}

device::Issue kernel(int64_t bytes) {
  return {"pointwise", "add", device::Lane::compute, device::MemoryWork{bytes, base::Dtype::bf16}, -1, {}};
}

// Returns a step of `times` micro-batches. The step begins with `first`. Each micro-batch is the operation `repeated`.
StepRecord step_of(const device::Issue& first, const device::Issue& repeated, int64_t times) {
  StepRecord record{.rank = 0, .issues = {first}, .groups = {}, .spans = {}};
  record.groups.push_back({"dp", static_cast<int>(comm::TrafficClass::dp), {0, 8}, 0});
  record.issues.insert(record.issues.end(), times, repeated);
  return record;
}

// A repeated operation takes about 3 ms, and the first operation about 10 ms. Therefore, steps of two and of three
// micro-batches take about equally long. Their difference does not show the time of a further micro-batch.
TEST(StepForecast, ExtrapolatedStepIsNotShorterThanTheWorkOfAStage) {
  const Recipe r = recipe_of("model: {vocab: 64}\ndata: {synthetic: true}", {}, 1);
  const StepPrices prices(Prices(two_nodes()), {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  for (const auto& [first, repeated] : {std::pair(gather(450'000'000), kernel(10'000'000'000)),
                                        std::pair(kernel(30'000'000'000), gather(150'000'000))}) {
    SCOPED_TRACE(repeated.name);
    const StepRecord two = step_of(first, repeated, 2);
    const RecordedStep step{.micro_batches = 30,
                            .longer = {.micro_batches = 3, .stages = {step_of(first, repeated, 3)}},
                            .shorter = RecordedStep::Part{.micro_batches = 2, .stages = {two}}};
    const StepForecast forecast = simulate_recorded(step, r, prices);
    const double work = 30 * RecordPrices(prices, two).seconds(repeated);
    EXPECT_NEAR(forecast.seconds, work, 1e-9 * work);
    const StepForecast::Stage& stage = forecast.stages.front();
    EXPECT_NEAR(repeated.communicates() ? stage.collectives : stage.work, work, 1e-9 * work);
    double parts = stage.busy + stage.idle;
    for (const double exposed : stage.exposed) {
      EXPECT_GE(exposed, 0);
      parts += exposed;
    }
    EXPECT_GE(stage.idle, 0);
    EXPECT_NEAR(parts, forecast.seconds, 1e-9 * work);
  }
}

// Each micro-batch of the first stage has a gather, and a kernel that waits for it. The second stage has one kernel
// that is longer than three micro-batches, but shorter than 30.
TEST(StepForecast, ExtrapolatedStepIsNotShorterThanAStageWithoutIdleTime) {
  const Recipe r = recipe_of("model: {vocab: 64}\ndata: {synthetic: true}", {}, 1);
  const StepPrices prices(Prices(two_nodes()), {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  const auto part = [&](int64_t count) {
    StepRecord waiting{.rank = 0, .issues = {}, .groups = {}, .spans = {}};
    waiting.groups.push_back({"dp", static_cast<int>(comm::TrafficClass::dp), {0, 8}, 0});
    for (int32_t n = 0; n < count; ++n) {
      waiting.issues.push_back(gather(150'000'000));
      if (n > 0) waiting.issues.back().after = {2 * n - 1};
      waiting.issues.push_back(kernel(10'000'000'000));
      waiting.issues.back().after = {2 * n};
    }
    StepRecord busy{.rank = 1, .issues = {kernel(300'000'000'000)}, .groups = {}, .spans = {}};
    return RecordedStep::Part{.micro_batches = count, .stages = {std::move(waiting), std::move(busy)}};
  };
  const RecordedStep step{.micro_batches = 30, .longer = part(3), .shorter = part(2)};
  const StepForecast forecast = simulate_recorded(step, r, prices);
  const StepRecord& first = step.longer.stages.front();
  const RecordPrices of_first(prices, first);
  const double work = 30 * (of_first.seconds(first.issues[0]) + of_first.seconds(first.issues[1]));
  EXPECT_NEAR(forecast.seconds, work, 1e-9 * work);
  EXPECT_NEAR(forecast.stages[0].idle, 0, 1e-9 * work);
  EXPECT_NEAR(forecast.stages[1].busy + forecast.stages[1].idle, work, 1e-9 * work);
}

// Returns a record of one operation of all ranks of a group.
StepRecord record_of_group(std::string_view operation, const std::vector<int>& ranks) {
  StepRecord record{};
  record.groups.push_back({"dp", static_cast<int>(comm::TrafficClass::dp), ranks, 0});
  record.issues.push_back({"comm", operation, device::Lane::compute, device::CommunicationWork{0, 1 << 20, 0}, -1, {}});
  return record;
}

TEST(StepPrices, NameGroupsWithUnequalNumbersOfRanksOnTheirNodes) {
  const auto uneven = [](const std::vector<int>& nodes) {
    const StepPrices prices(Prices(two_nodes()), nodes);
    std::vector<int> ranks(nodes.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    const StepRecord record = record_of_group("all_gather", ranks);
    return RecordPrices(prices, record).uneven_groups();
  };
  EXPECT_EQ(uneven({0, 0, 0, 1}), std::vector<std::string>{"dp (4 ranks on 2 nodes)"});
  EXPECT_EQ(uneven({0, 0, 1, 2, 2, 2}), std::vector<std::string>{"dp (6 ranks on 3 nodes)"})
      << "the mean is that of the first node";
  EXPECT_TRUE(uneven({0, 0, 1, 1}).empty());
  EXPECT_TRUE(uneven({0, 1, 0, 1}).empty());
  EXPECT_TRUE(uneven({0, 0}).empty());
}

TEST(StepPrices, UnevenGroupsAreAssumptionsOfTheStep) {
  const Recipe r = recipe_of(
      "model: {layers: 2, hidden: 64, heads: 4, context: 64, vocab: 128}\n"
      "batch: {global: 4, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "device: cuda\n"
      "data: {synthetic: true}\n",
      {}, 4);
  const mesh::Layout layout(r.parallel.sizes(), 4);
  const StepForecast uneven = forecast_step(r, {}, layout, StepPrices(Prices(two_nodes()), {0, 0, 0, 1}));
  ASSERT_FALSE(uneven.uneven_groups.empty());
  const std::vector<std::string> before = assumptions(two_nodes());
  const std::vector<std::string> after = assumptions(two_nodes(), uneven.uneven_groups);
  ASSERT_EQ(after.size(), before.size() + 1);
  EXPECT_EQ(after.back().find("groups with different numbers of ranks on their nodes, "), 0u) << after.back();
  const StepForecast even = forecast_step(r, {}, layout, StepPrices(Prices(two_nodes()), {0, 0, 1, 1}));
  EXPECT_TRUE(even.uneven_groups.empty());
  EXPECT_EQ(assumptions(two_nodes(), even.uneven_groups), before);
}

TEST(StepPrices, JoinTheNodesOfADomain) {
  Cluster cluster = two_nodes();
  EXPECT_EQ(StepPrices(Prices(cluster), {0, 1}).contention({}, 8).nodes_of_domain, 1);
  EXPECT_EQ(StepPrices(Prices(cluster), {0, 0, 1}).domain_of_rank(), (std::vector<int>{0, 0, 1}));
  cluster.machine->domain = 2 * cluster.machine->ranks_per_node;
  EXPECT_EQ(StepPrices(Prices(cluster), {0, 1}).contention({}, 8).nodes_of_domain, 2);
  EXPECT_EQ(StepPrices(Prices(cluster), {0, 1, 2, 3}).domain_of_rank(), (std::vector<int>{0, 0, 1, 1}));
}

TEST(StepPrices, RefuseUnknownCollectives) {
  const StepPrices prices(Prices(two_nodes()), {0, 0});
  for (const std::string_view known : {"all_gather", "broadcast", "all_reduce", "reduce_scatter", "all_to_all"}) {
    const StepRecord record = record_of_group(known, {0, 1});
    EXPECT_GT(RecordPrices(prices, record).seconds(record.issues[0]), 0) << known;
  }
  const StepRecord record = record_of_group("all_gather_v", {0, 1});
  EXPECT_THROW(RecordPrices(prices, record).seconds(record.issues[0]), std::logic_error);
}

TEST(StepPrices, SkewChangesThePriceOfUnequalGroupsOnly) {
  const auto seconds = [](double skew, int64_t largest) {
    Cluster cluster = two_nodes();
    cluster.machine->grouped = complete(*cluster.machine).machine.grouped;
    cluster.machine->grouped->skew = skew;
    const StepPrices prices(Prices(cluster), {0});
    const device::ProductWork work{.dtype = base::Dtype::bf16,
                                   .pass = base::GemmPass::forward,
                                   .rows = 16384,
                                   .inputs = 2048,
                                   .outputs = 2048,
                                   .groups = 8,
                                   .largest = largest};
    StepRecord record{.rank = 0, .issues = {}, .groups = {}, .spans = {}};
    record.issues.push_back({"grouped_matmul", "forward", device::Lane::compute, work, -1, {}});
    return RecordPrices(prices, record).seconds(record.issues.front());
  };
  EXPECT_GT(seconds(0.1, 8192), 1.05 * seconds(0, 8192));
  EXPECT_DOUBLE_EQ(seconds(0.1, 2048), seconds(0, 2048));
  EXPECT_DOUBLE_EQ(seconds(0.1, 0), seconds(0, 0)) << "without the largest group, groups are assumed to be equal";
}

// The last stage reduces the embedding's gradient first, and the first stage reduces this gradient last. The backward
// of the last stage waits for the stage's other reductions. The other reductions must not wait for the reduction of
// the embedding's gradient.
TEST(StepForecast, StagesThatShareTheEmbeddingDoNotWaitForEachOther) {
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    SCOPED_TRACE(zero);
    const Recipe r = recipe_of(
        "model: {layers: 8, hidden: 64, heads: 4, context: 32, vocab: 512, tied_embedding: true}\n"
        "batch: {global: 8, micro: 1}\n"
        "train: {steps: 10, precision: bf16}\n"
        "device: cuda\n"
        "distributed: {bucket_bytes: 8192}\n"
        "data: {synthetic: true}\n",
        {"parallel.pp=2", zero}, 4);
    const StepPrices prices(Prices(two_nodes()), {0, 0, 0, 0});
    EXPECT_GT(forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), 4), prices).seconds, 0);
  }
}

TEST(StepForecast, UpdateCountsOnceAndIsShorterIfRanksShareIt) {
  const auto update = [](const std::vector<std::string>& overrides) {
    const Recipe r = recipe_of(
        "model: {layers: 2, hidden: 512, heads: 8, context: 512, vocab: 1024}\n"
        "batch: {global: 32, micro: 1}\n"
        "train: {steps: 10, precision: bf16}\n"
        "device: cuda\n"
        "data: {synthetic: true}\n",
        overrides, 2);
    const StepPrices prices(Prices(two_nodes()), {0, 0});
    return forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), 2), prices).stages.front();
  };
  const StepForecast::Stage whole = update({"parallel.zero=0"}), shared = update({"parallel.zero=1"}),
                            longer = update({"parallel.zero=0", "batch.global=64"});
  EXPECT_GT(whole.update, 0);
  EXPECT_LT(whole.update, whole.busy);
  EXPECT_LT(shared.update, whole.update) << "ranks share the update";
  EXPECT_NEAR(longer.update, whole.update, 1e-6 * whole.update) << "a step with more micro-batches also has one update";
  EXPECT_GT(longer.busy, 1.5 * whole.busy);
}

// The only rank of this job is twice as fast if the profile was measured with two ranks that shared a core.
TEST(StepForecast, AJobWithFewerRanksThanTheProfileHasMoreCores) {
  const auto seconds = [](std::optional<int64_t> cores) {
    const Recipe r = recipe_of(
        "model: {layers: 2, hidden: 64, heads: 4, context: 64, vocab: 256}\n"
        "batch: {global: 2, micro: 1}\n"
        "train: {steps: 10}\n"
        "data: {synthetic: true}\n",
        {}, 1);
    Cluster cluster = default_cluster(1, 2);
    cluster.measured.node_cores = cores;
    return forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), 1), StepPrices(Prices(cluster), {0})).seconds;
  };
  EXPECT_NEAR(seconds(1), seconds({}) / 2, 1e-6 * seconds({}));
  EXPECT_DOUBLE_EQ(seconds(2), seconds({}));
}

// A profile of four ranks that shared two cores has half of a core's rate.
TEST(Throughput, HasThePeakOfTheCoresThatARankOfTheJobHas) {
  Cluster cluster = default_cluster(1, 4);
  const Recipe r = recipe_of("model: {vocab: 64}\ndata: {synthetic: true}", {}, 1);
  const auto peak = [&](int64_t ranks) {
    return throughput(1.0, r, {}, Prices(cluster), ranks).peak_flops_per_second / static_cast<double>(ranks);
  };
  const double alone = peak(4);
  EXPECT_DOUBLE_EQ(peak(1), alone) << "the cores are not known";
  cluster.measured.node_cores = 2;
  EXPECT_DOUBLE_EQ(peak(4), alone);
  EXPECT_DOUBLE_EQ(peak(2), 2 * alone);
  EXPECT_DOUBLE_EQ(peak(1), 2 * alone);
}

TEST(ExtrapolatedStepInPairs, IsWithin2PercentOfAllMicroBatches) {
  for (const char* kind : {"1f1b", "dualpipe_v"}) {
    SCOPED_TRACE(kind);
    Recipe r = recipe_with(kind);
    r = with_schedule(r, r.schedule.moe.settled());
    r.schedule.pipeline.overlap = pp::Overlap::micro_batches;
    expect_whole(r);
  }
}

TEST(StepForecast, PairsHideTheExchangesOfRestoredChunks) {
  for (const char* device : {"cuda", "cpu"}) {
    SCOPED_TRACE(device);
    const auto forecast = [&](const std::string& overlap) {
      const Recipe r = recipe_of(base::cat("model: {layers: 4, hidden: 1024, heads: 8, context: 2048, vocab: 1024,\n"
                                           "        moe: {experts: 4, top_k: 2, expert_hidden: 1024}}\n"
                                           "batch: {global: 16, micro: 1}\n"
                                           "train: {steps: 10, precision: bf16}\n"
                                           "data: {synthetic: true}\n"
                                           "schedule: {moe: {memory_reuse: s4, chunk_by: tokens, chunks: 2}}\n"
                                           "device: ",
                                           device, "\n"),
                                 {"parallel.ep=2", "schedule.pipeline.overlap=" + overlap}, 2);
      return forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), 2), StepPrices(Prices(two_nodes()), {0, 1}));
    };
    const StepForecast alone = forecast("none"), pairs = forecast("micro_batches");
    const auto ep = static_cast<size_t>(comm::TrafficClass::ep);
    EXPECT_GT(alone.stages.front().exposed[ep], 0);
    EXPECT_LT(pairs.stages.front().exposed[ep], alone.stages.front().exposed[ep]);
    EXPECT_LT(pairs.seconds, alone.seconds);
  }
}

}  // namespace
}  // namespace hexad::tests
