// Steps composed from costs of layers, and steps under given loads of experts.
#include "tools/plan/layer_costs.h"

#include <gtest/gtest.h>

#include <iostream>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/step_forecast.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int64_t ranks = 16;

const std::string yaml =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 512, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 64, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

// Returns the seconds of the simulated step on all ranks of `prices`.
double simulated_seconds(const PlanCandidate& c, const StepPrices& prices) {
  const mesh::Layout layout(c.recipe.parallel.sizes(), static_cast<int>(prices.node_of_rank().size()));
  return forecast_step(c.recipe, {}, layout, prices).seconds;
}

TEST(StepForecast, WaitsForTheBusiestRankOfEachLayer) {
  const train::Extensions extensions;
  const Recipe r = recipe_of(yaml, {"parallel.ep=8", "model.context=4096", "model.moe.expert_hidden=4096"}, ranks);
  const auto seconds = [&](const ExpertShares& shares) {
    const mesh::Layout layout(r.parallel.sizes(), ranks);
    return forecast_step(r, extensions, layout, StepPrices(two_nodes(), ranks), RoutingLoad(shares)).seconds;
  };
  const std::vector<double> first{0.44, 0.08, 0.08, 0.08, 0.08, 0.08, 0.08, 0.08};
  const std::vector<double> last{0.08, 0.08, 0.08, 0.08, 0.08, 0.08, 0.08, 0.44};
  const double of_one_rank = seconds(ExpertShares(8, first));
  EXPECT_NEAR(seconds({first, last, first, last, first, last, first, last}), of_one_rank, 0.01 * of_one_rank);
  EXPECT_LT(seconds(ExpertShares(8, std::vector<double>(8, 0.125))), 0.95 * of_one_rank);
}

TEST(LayerCosts, ComposeStepsNearSimulatedSteps) {
  const PlanCandidates all =
      plan_candidates(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, {.world = ranks, .ranks_per_domain = 8});
  const Cluster cluster = two_nodes();
  const train::Extensions extensions;
  LayerCosts costs(extensions, cluster, ranks);
  const StepPrices prices(cluster, ranks);
  std::vector<double> ratios;
  for (size_t i = 0; i < all.legal.size(); i += all.legal.size() / 24) {
    const PlanCandidate& c = all.legal[i];
    const double composed = costs.step(c).seconds;
    const double simulated = simulated_seconds(c, prices);
    ratios.push_back(composed / simulated);
    std::cout << c.to_string(ranks) << ": composed " << 1e3 * composed << " ms, simulated " << 1e3 * simulated
              << " ms\n";
  }
  std::ranges::sort(ratios);
  EXPECT_GT(ratios.front(), 0.6);
  EXPECT_LT(ratios.back(), 1.6);
  EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.1);
}

// A recorded stage can have all ranks of the job. A stage of the whole model has a quarter or an eighth of these ranks.
TEST(LayerCosts, ComposeStepsOfManyRanksAndFewMicroBatches) {
  constexpr int many = 1024;
  Cluster cluster = two_nodes();
  cluster.machine->nodes = many / 8;
  const train::Extensions extensions;
  LayerCosts costs(extensions, cluster, many);
  const StepPrices prices(cluster, many);
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.pp=8"}, {"parallel.pp=8", "parallel.ep=8"}, {"parallel.pp=4"}}) {
    std::vector<std::string> overrides{"batch.global=1024", "parallel.zero=1"};
    overrides.insert(overrides.end(), layout.begin(), layout.end());
    const PlanCandidate c{recipe_of(yaml, overrides, many)};
    EXPECT_NEAR(costs.step(c).seconds / simulated_seconds(c, prices), 1, 0.3) << c.to_string(many);
  }
}

// In some cases, the head takes longer than the layers of a stage. In one case, stages cannot divide the layers evenly.
TEST(LayerCosts, ComposeStepsOfUnequalStages) {
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  const StepPrices prices(cluster, ranks);
  for (const std::vector<std::string>& model : {std::vector<std::string>{"parallel.pp=2", "model.vocab=32768"},
                                                {"parallel.pp=4", "model.vocab=32768"},
                                                {"parallel.pp=4", "model.layers=10"},
                                                {"parallel.pp=8", "model.layers=8", "model.vocab=16384"}}) {
    LayerCosts costs(extensions, cluster, ranks);
    const PlanCandidate c{recipe_of(yaml, model, ranks)};
    EXPECT_NEAR(costs.step(c).seconds / simulated_seconds(c, prices), 1, 0.15) << c.to_string(ranks);
  }
}

TEST(LayerCosts, KnowTheTrafficOfZero2AndTheWorkOfRecomputedNorms) {
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  LayerCosts costs(extensions, cluster, ranks);
  const StepPrices prices(cluster, ranks);
  const auto candidate = [&](const std::string& zero, const std::string& recompute) {
    return PlanCandidate{recipe_of(yaml, {"parallel.ep=8", "parallel.zero=" + zero, "recompute=" + recompute}, ranks)};
  };
  const PlanCandidate layout = candidate("1", "none");
  const ComposedStep before = costs.step(layout);
  for (const PlanCandidate& c : {candidate("2", "none"), candidate("1", "norms")}) {
    const ComposedStep after = costs.step(c);
    EXPECT_GT(after.seconds, before.seconds) << c.to_string(ranks);
    EXPECT_LT(after.memory, before.memory) << c.to_string(ranks);
    EXPECT_NEAR(after.seconds / simulated_seconds(c, prices), before.seconds / simulated_seconds(layout, prices), 0.4)
        << c.to_string(ranks);
  }
}

TEST(LayerCosts, HaveTheMemoryOfTheStepBeforeItsTimeIsKnown) {
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  const PlanCandidate c{recipe_of(yaml, {"parallel.ep=8", "batch.micro=2"}, ranks)};
  const double memory = LayerCosts(extensions, cluster, ranks).memory(c),
               seconds = LayerCosts(extensions, cluster, ranks).seconds(c);
  const ComposedStep step = LayerCosts(extensions, cluster, ranks).step(c);
  EXPECT_EQ(step.memory, memory);
  EXPECT_EQ(step.seconds, seconds);
  EXPECT_GT(memory, 0);
  EXPECT_GT(seconds, 0);
}

TEST(LayerCosts, ComposeStepsOnNodesOfSixRanks) {
  Cluster cluster = two_nodes();
  cluster.machine->ranks_per_node = 6;
  const train::Extensions extensions;
  LayerCosts costs(extensions, cluster, 8);
  EXPECT_GT(costs.step({recipe_of(yaml, {"parallel.pp=8"}, 8)}).seconds, 0);
}

TEST(LayerCosts, ComposeStepsOfSequencesIndivisibleByTp) {
  const Recipe r = recipe_of(yaml, {"model.context=100", "batch.micro=2", "parallel.tp=8", "parallel.sp=true"}, ranks);
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  EXPECT_GT(LayerCosts(extensions, cluster, ranks).step({r}).seconds, 0);
}

TEST(LayerCosts, HaveTheLogitsOfOneBlock) {
  const std::string many_words =
      "model: {layers: 2, hidden: 256, heads: 4, context: 32768, vocab: 131072}\n"
      "batch: {global: 16, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "device: cuda\n"
      "data: {synthetic: true}\n";
  const Recipe r = recipe_of(many_words, {"recompute=block"}, ranks);
  const double composed = LayerCosts({}, two_nodes(), ranks).step({r}).memory;
  EXPECT_LT(composed, 32768.0 * 131072 * 6 / 3) << "6 bytes for each logit of a sequence are 26 GB";
  const double estimated = estimate_memory(r, {}, ranks).total;
  EXPECT_NEAR(composed, estimated, 0.3 * estimated);
}

// LayerCosts records small models of one and two periods of layers. These models would have another fraction of frozen
// layers than the whole model if optim.freeze applied to them unchanged.
TEST(LayerCosts, CountTheFrozenLayersOfTheWholeModel) {
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  const auto memory_of = [&](const std::string& freeze) {
    const Recipe r = recipe_of(yaml, {"parallel.ep=8", "optim.freeze=" + freeze}, ranks);
    const double composed = LayerCosts(extensions, cluster, ranks).step({r}).memory,
                 whole = estimate_memory(r, extensions, ranks).total;
    EXPECT_NEAR(composed, whole, 0.15 * whole) << freeze;
    return composed;
  };
  const double all = memory_of("[]"), first = memory_of("[\"layers.[0-3].*\"]"),
               last = memory_of("[\"layers.[4-7].*\"]"), experts = memory_of("[\"*.experts.*\"]");
  EXPECT_NEAR(first, last, 0.001 * first);
  EXPECT_LT(last, 0.9 * all);
  EXPECT_LT(experts, 0.9 * all);
}

TEST(LayerCosts, DependOnTheLoadsOfExperts) {
  const train::Extensions extensions;
  const Cluster cluster = two_nodes();
  const PlanCandidate c{
      recipe_of(yaml, {"parallel.ep=8", "model.context=4096", "model.moe.expert_hidden=4096"}, ranks)};
  const StepPrices prices(cluster, ranks);
  const auto composed = [&](const RoutingLoad& load) { return LayerCosts(extensions, cluster, ranks, load).step(c); };
  const auto simulated = [&](const RoutingLoad& load) {
    return forecast_step(c.recipe, extensions, mesh::Layout(c.recipe.parallel.sizes(), ranks), prices, load).seconds;
  };
  // The last expert gets half of the slots in all layers but the first, where it gets none.
  ExpertShares shares(8, std::vector<double>{0.5 / 7, 0.5 / 7, 0.5 / 7, 0.5 / 7, 0.5 / 7, 0.5 / 7, 0.5 / 7, 0.5});
  shares.front() = {0.5, 0.5, 0, 0, 0, 0, 0, 0};
  for (const RoutingLoad& load : {RoutingLoad(RoutingLoad::one_rank), RoutingLoad(shares)}) {
    EXPECT_GT(composed(load).seconds, composed(RoutingLoad::even).seconds);
    EXPECT_GT(composed(load).memory, composed(RoutingLoad::even).memory);
    EXPECT_NEAR(composed(load).seconds / simulated(load),
                composed(RoutingLoad::even).seconds / simulated(RoutingLoad::even), 0.3);
  }
}

}  // namespace
}  // namespace hexad::tests
