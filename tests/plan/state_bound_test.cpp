// Bounds of a rank's state, compared with estimates of its memory.
#include "tools/plan/state_bound.h"

#include <gtest/gtest.h>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int64_t ranks = 16;

const std::string yaml =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 64, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 64, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

// Bytes per rank that main weights of the routers would need: layers x experts x hidden x 4 bytes, divided among all
// ranks. Routers are stored in f32, so they have no main weights.
constexpr double main_weights_of_routers = 8. * 8 * 512 * 4 / ranks;

Cluster without_offload() {
  Cluster cluster = two_nodes();
  cluster.machine->host_memory.reset();
  return cluster;
}

StateBound bound_of(const Recipe& r, const Cluster& cluster) {
  return {r, layers::parameter_counts(r.model, train::Extensions{}), cluster};
}

TEST(StateBound, IsAtMostTheMemoryOfLayouts) {
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{"parallel.ep=8"},
                                                    {"parallel={ep: 4, zero: 1}"},
                                                    {"parallel={tp: 2, sp: true, ep: 2, zero: 1}"},
                                                    {"parallel.zero=3"},
                                                    {"parallel={zero: 3, ep: 4}"},
                                                    {"optim.main_weights=rest"},
                                                    {"optim.main_weights=rest", "optim.moment_dtype=bf16"},
                                                    {"train.precision=f32", "parallel.zero=1"}}) {
    const Recipe r = recipe_of(yaml, overrides, ranks);
    const StateBound bound = bound_of(r, without_offload());
    const MemoryEstimate m = estimate_memory(r, {}, ranks);
    const double layout_bytes = bound.layout_bytes(r, ranks);
    EXPECT_LE(layout_bytes, m.weights + m.gradients + m.optimizer) << testing::PrintToString(overrides);
    if (r.parallel.zero < 3) {  // under ZeRO-3, the weights of some layers are gathered
      EXPECT_GT(layout_bytes, 0.5 * (m.weights + m.gradients + m.optimizer)) << testing::PrintToString(overrides);
    }
    EXPECT_LE(bound.lower_bound_bytes(ranks), layout_bytes) << testing::PrintToString(overrides);
  }
}

TEST(StateBound, LeavesOutAnOptimizerThatMayBeOffloaded) {
  const Recipe r = recipe_of(yaml, {}, ranks);
  EXPECT_TRUE(bound_of(r, without_offload()).has_optimizer());
  EXPECT_FALSE(bound_of(r, two_nodes()).has_optimizer());
  // Weights and gradients take 6 of the 18 bytes of a bf16 parameter.
  EXPECT_DOUBLE_EQ(3 * bound_of(r, two_nodes()).lower_bound_bytes(ranks) - main_weights_of_routers,
                   bound_of(r, without_offload()).lower_bound_bytes(ranks));
}

TEST(StateBound, CountsOnlyWeightsIfParametersAreFrozen) {
  const Recipe all = recipe_of(yaml, {}, ranks), some = recipe_of(yaml, {"optim.freeze=[embedding.weight]"}, ranks);
  const StateBound bound = bound_of(some, without_offload());
  EXPECT_FALSE(bound.has_gradients());
  EXPECT_FALSE(bound.has_optimizer());
  // Weights take 2 of the 18 bytes of a bf16 parameter.
  EXPECT_DOUBLE_EQ(9 * bound.lower_bound_bytes(ranks) - main_weights_of_routers,
                   bound_of(all, without_offload()).lower_bound_bytes(ranks));
  const MemoryEstimate m = estimate_memory(some, {}, ranks);
  EXPECT_LE(bound.layout_bytes(some, ranks), m.weights + m.gradients + m.optimizer);
}

TEST(StateShortfall, NamesTheFewestRanksThatHoldTheState) {
  const Recipe r = recipe_of(yaml, {}, ranks);
  Cluster small = without_offload();
  const double alone = bound_of(r, small).lower_bound_bytes(1);
  small.machine->memory = config::ByteSize(static_cast<int64_t>(alone / 4.5 / 0.94));
  EXPECT_FALSE(state_shortfall(r, {}, small, 5));
  const std::optional<StateShortfall> shortfall = state_shortfall(r, {}, small, 4);
  ASSERT_TRUE(shortfall);
  EXPECT_EQ(shortfall->fewest_ranks, 5);
  EXPECT_DOUBLE_EQ(shortfall->bytes, alone / 4);
  EXPECT_NEAR(shortfall->memory, alone / 4.5, 1e-6 * alone);
  EXPECT_FALSE(state_shortfall(r, {}, Cluster{}, 1)) << "without a description, memory has no limit";
}

}  // namespace
}  // namespace hexad::tests
