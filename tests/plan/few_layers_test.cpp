// Steps of a few recorded layers, priced with numbers of tokens that were not recorded.
#include "tools/plan/few_layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int ranks = 8;
const train::Extensions extensions;

const std::string yaml =
    "model: {layers: 2, hidden: 1024, heads: 8, context: 4096, vocab: 1024}\n"
    "batch: {global: 16, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

FewLayers few_layers(const Recipe& r, const std::array<int64_t, 2>& contexts) {
  return {r, extensions, prices_of_stage(r, Prices(two_nodes()), ranks, 1), contexts};
}

// Returns three recipes: with tensor parallelism, with experts, and with weights divided among ranks (ZeRO-3).
std::vector<Recipe> recipes(const std::string& device) {
  std::vector<Recipe> all;
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"parallel.tp=2", "parallel.sp=true"},
        {"model.moe={experts: 8, top_k: 2, expert_hidden: 1024}", "parallel.ep=8"},
        {"parallel.zero=3"}}) {
    all.push_back(recipe_of(yaml, overrides, ranks));
    all.back().device = *base::enum_named<device::DeviceKind>(device);
  }
  return all;
}

// Returns the seconds of a recorded and simulated step with two micro-batches.
double simulated_seconds(const Recipe& r) {
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  const StepPrices prices(two_nodes(), ranks);
  RunOnMeta run(r, extensions, layout, 0, RoutingLoad::even, RunOnMeta::Record::issues, prices.node_of_rank());
  run.follow_spans();
  if (r.parallel.zero == 3) run.step(2);
  const StepRecord record = record_step(run, 2, 0);
  const RecordPrices priced(prices, record);
  return simulate_step(
             std::span(&record, 1), prices.node_of_rank(),
             [&](const StepRecord&, const device::Issue& issue) { return priced.seconds(issue); },
             prices.contention(train::priorities_of(r.distributed), prices.ranks_of_fullest_node()))
      .seconds;
}

TEST(FewLayers, HaveTheSimulatedStepOfARecordedLength) {
  for (Recipe r : recipes("cuda")) {
    r.model.context = 1024;
    const FewLayersTimes times = few_layers(r, {896, 1024}).times(1, 1024);
    EXPECT_GT(times.micro_batch, 0);
    EXPECT_DOUBLE_EQ(2 * times.micro_batch + times.rest, simulated_seconds(r));
  }
}

TEST(FewLayers, AreExtrapolatedToDistantLengths) {
  size_t i = 0;
  for (const Recipe& r : recipes("cuda")) {
    SCOPED_TRACE(i++);
    FewLayers near = few_layers(r, {896, 1024}), far = few_layers(r, {3968, 4096});
    const FewLayersTimes near_times = near.times(1, 4096), far_times = far.times(1, 4096);
    EXPECT_NEAR(near_times.micro_batch, far_times.micro_batch, 0.03 * far_times.micro_batch);
    EXPECT_NEAR(near_times.rest, far_times.rest, 0.03 * (far_times.rest + far_times.micro_batch));
    EXPECT_NEAR(near_times.dp_traffic, far_times.dp_traffic, 0.01 * far_times.dp_traffic);
    const FewLayersMemory near_memory = near.memory(1, 4096), far_memory = far.memory(1, 4096);
    EXPECT_NEAR(near_memory.activations, far_memory.activations, 0.03 * far_memory.activations);
    // The weights include rotary tables, whose size is proportional to the length.
    EXPECT_NEAR(near_memory.weights, far_memory.weights, 1e-9 * far_memory.weights);
  }
}

// In each case, the eight ranks of a node either share the experts or belong to eight different stages. Additional
// stages are on other nodes.
TEST(FewLayers, HaveSmallerGroupsWithMoreStages) {
  constexpr int64_t world = 1024;
  struct Case {
    std::vector<std::string> overrides;
    int64_t stages, more;
    bool has_experts = false;
    int64_t domain = 8;  // ranks that the fast link connects
  };
  for (const Case& c :
       {Case{{"parallel.zero=1"}, 8, 4}, Case{{"parallel.zero=0"}, 8, 16},
        Case{{"parallel.zero=1", "model.moe={experts: 8, top_k: 2, expert_hidden: 1024}", "parallel.ep=8"}, 1, 8, true},
        Case{
            {"parallel.zero=3", "model.moe={experts: 8, top_k: 2, expert_hidden: 1024}", "parallel.ep=8"}, 1, 16, true},
        Case{{"parallel.zero=1"}, 8, 4, false, 64}, Case{{"parallel.zero=1", "offload.optimizer=file"}, 8, 4}}) {
    SCOPED_TRACE(testing::PrintToString(c.overrides) + " " + std::to_string(c.more));
    Cluster cluster = two_nodes();
    cluster.machine->domain = c.domain;
    cluster.machine->host = HostLink{.to_host = 43e9, .to_device = 55e9, .latency = 10e-6};
    std::vector<std::string> overrides = c.overrides;
    overrides.push_back("batch.global=1024");
    Recipe r = recipe_of(yaml, overrides, world);
    r.device = device::DeviceKind::cuda;
    const auto times = [&](int64_t recorded, int64_t more) {
      return FewLayers(r, extensions, prices_of_stage(r, Prices(cluster), world, recorded), {896, 1024})
          .times(1, 1024, more);
    };
    const FewLayersTimes all = times(c.stages, 1), divided = times(c.stages, c.more),
                         expected = times(c.stages * c.more, 1);
    EXPECT_NEAR(divided.rest, expected.rest, 0.1 * (expected.rest + expected.micro_batch));
    EXPECT_NEAR(divided.micro_batch, expected.micro_batch, 0.05 * expected.micro_batch);
    if (c.has_experts) {
      EXPECT_GT(all.rest, 3 * expected.rest) << "groups of all stages would take too long";
    }
  }
}

TEST(FewLayers, HaveTheMicroBatchOfOnePeriod) {
  const Recipe r = recipes("cuda")[1];
  const auto micro_batch = [&](Recipe changed) {
    return micro_batch_of_few_layers(std::move(changed), extensions, Prices(two_nodes()), ranks, RoutingLoad::even, {});
  };
  Recipe one_layer = r, chunked = r, short_one = r, frozen = r;
  one_layer.model.layers = 1;
  EXPECT_EQ(micro_batch(r), micro_batch(one_layer));
  chunked.schedule.moe.chunk_by = moe::ChunkBy::tokens, chunked.schedule.moe.chunks = 2;
  EXPECT_NE(micro_batch(r), micro_batch(chunked));
  short_one.model.context = 2;
  EXPECT_GT(micro_batch(short_one), 0);
  frozen.optim.freeze = {"layers.1.*"};
  EXPECT_FALSE(micro_batch(frozen)) << "layers with and without frozen weights differ";
}

TEST(FewLayers, HaveShorterAttentionInShorterSequences) {
  FewLayers layers = few_layers(recipes("cuda").front(), {896, 1024});
  EXPECT_LT(layers.times(8, 1024).micro_batch, layers.times(1, 8192).micro_batch);
  EXPECT_EQ(layers.memory(8, 1024).activations, layers.memory(1, 8192).activations);
}

TEST(FewLayers, HaveTheSameTimesAfterOtherTimes) {
  for (const Recipe& r : recipes("cuda")) {
    FewLayers layers = few_layers(r, {896, 1024});
    layers.times(1, 1024), layers.times(4, 4096);
    const FewLayersTimes first = few_layers(r, {896, 1024}).times(2, 2048, 2);
    for (int i = 0; i < 2; ++i, layers.free_simulation()) {
      const FewLayersTimes again = layers.times(2, 2048, 2);
      EXPECT_EQ(again.micro_batch, first.micro_batch);
      EXPECT_EQ(again.rest, first.rest);
      EXPECT_EQ(again.dp_traffic, first.dp_traffic);
    }
  }
}

// On a CPU, the loss is computed in blocks of 256 rows: one block for the shorter sequence, four blocks for the longer
// sequence.
TEST(FewLayers, AreProportionalToTokensIfOperationsDiffer) {
  FewLayers layers = few_layers(recipes("cpu").back(), {256, 1024});
  const FewLayersTimes recorded = layers.times(1, 1024), longer = layers.times(3, 1024);
  EXPECT_DOUBLE_EQ(longer.micro_batch, 3 * recorded.micro_batch);
  EXPECT_DOUBLE_EQ(layers.memory(3, 1024).activations, 3 * layers.memory(1, 1024).activations);
  EXPECT_EQ(longer.rest, recorded.rest);
  EXPECT_EQ(longer.dp_traffic, recorded.dp_traffic);
}

TEST(LossBlock, HasTheRowsOfTheKernel) {
  const auto tokens = [](const std::vector<std::string>& overrides) {
    Recipe r = recipe_of(yaml, overrides, ranks);
    r.device = device::DeviceKind::cuda;
    r.model.vocab = 131072;
    return tokens_of_loss_block(r, 1024, 32768);
  };
  EXPECT_EQ(tokens({}), 4096) << "a block has kernels::cuda::block_rows() rows";
  EXPECT_EQ(tokens({"parallel.cp=2"}), 2 * 4096);
  // Two blocks of f32 logits and a bf16 gradient take 10 bytes for each row and vocabulary entry, instead of 6.
  EXPECT_DOUBLE_EQ(tokens({"parallel.tp=2", "parallel.sp=true"}).value(), 4096.0 * 10 / 6);
  EXPECT_DOUBLE_EQ(tokens({"parallel.tp=2", "parallel.sp=true", "train.precision=f32"}).value(), 4096.0 * 2);
  // Logits in bf16 need no more memory for the gradient, because the gradient overwrites them.
  EXPECT_DOUBLE_EQ(tokens({"parallel.tp=2", "parallel.sp=true", "train.logits_dtype=bf16"}).value(), 4096.0 * 2);
}

TEST(LossBlock, IsUnknownIfRecordedTokensHaveSeveralBlocks) {
  const Recipe r = recipe_of(yaml, {}, ranks);  // on a CPU, a block has 256 rows
  EXPECT_FALSE(tokens_of_loss_block(r, 1024, 4096));
}

}  // namespace
}  // namespace hexad::tests
