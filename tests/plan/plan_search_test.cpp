// The order in which a plan returns layouts, and the figures that it gives for them.
#include "tools/plan/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "framework/config/recipe_error.h"
#include "tests/plan/planned_recipe.h"
#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;

namespace {

// Returns the legal layouts of the recipe `text` and their variants.
std::vector<PlanCandidate> all_layouts(const config::Document& document, const std::string& text, int64_t world) {
  std::vector<PlanCandidate> all =
      plan_candidates(document, recipe_of(text), {}, {.world = world, .ranks_per_domain = 8}).legal;
  for (size_t i = 0, layouts = all.size(); i < layouts; ++i)
    for (PlanCandidate& v : variants(all[i])) all.push_back(std::move(v));
  return all;
}

TEST(GroupBytes, AddUpToTheBytesOfAStep) {
  const Recipe r = recipe_of(yaml, {"parallel.tp=8", "parallel.sp=true", "parallel.pp=2"}, ranks);
  const StepPrices prices(two_nodes(), ranks);
  const RecordedStep recorded = record_for_forecast(r, {}, mesh::Layout(r.parallel.sizes(), ranks), prices);
  ASSERT_TRUE(recorded.shorter) << "the step must be extrapolated";
  const StepForecast step = simulate_recorded(recorded, r, prices);
  std::array<double, comm::traffic_class_count> sent{}, expected{};
  double network = 0, expected_network = 0, last = std::numeric_limits<double>::infinity();
  for (const GroupBytes& t : bytes_by_group(recorded, prices)) {
    EXPECT_LE(t.sent, last) << "the traffic is not sorted in decreasing order";
    last = t.sent;
    sent[base::ordinal(t.traffic)] += t.sent, network += t.network;
    if (t.name == "tp") {
      EXPECT_EQ(t.ranks, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
      EXPECT_EQ(t.network, 0);
    }
    if (t.traffic == comm::TrafficClass::pp) {
      EXPECT_EQ(t.ranks, (std::vector<int>{0, 8}));
      EXPECT_DOUBLE_EQ(t.network, t.sent);
    }
  }
  for (const StepForecast::Stage& stage : step.stages) {
    expected_network += stage.network / 2;
    for (size_t c = 0; c < expected.size(); ++c) expected[c] += stage.sent[c] / 2;
  }
  for (size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(sent[c], expected[c], 1e-9 * expected[c]) << c;
  EXPECT_NEAR(network, expected_network, 1e-9 * expected_network);
  EXPECT_GT(sent[base::ordinal(comm::TrafficClass::tp)], 0);
  EXPECT_GT(sent[base::ordinal(comm::TrafficClass::pp)], 0);
}

TEST(StepForecast, CountsBytesThatLeaveANode) {
  const train::Extensions extensions;
  const auto forecast = [&](int world) {
    const Recipe r = recipe_of(yaml, {"parallel.tp=8", "parallel.sp=true", "parallel.zero=1"}, world);
    return forecast_step(r, extensions, mesh::Layout(r.parallel.sizes(), world), StepPrices(two_nodes(), world));
  };
  const StepForecast::Stage one = forecast(8).stages.front(), two = forecast(16).stages.front();
  EXPECT_EQ(one.network, 0);
  EXPECT_GT(one.sent[base::ordinal(comm::TrafficClass::tp)], 0);
  // Groups of tp fill a node, and groups of dp have one rank on each node. Gradients of weights that all ranks have,
  // such as the router's, are summed over all ranks. Only a part of their bytes leaves a node.
  const double between = two.sent[base::ordinal(comm::TrafficClass::dp)];
  EXPECT_LT(two.network, between);
  EXPECT_GT(two.network, 0.9 * between);
}

TEST(Plan, HasAFirstLayoutNearTheBestOfAll) {
  const std::string dense =
      "model: {layers: 4, hidden: 1024, heads: 4, context: 1024, vocab: 1024}\n"
      "batch: {global: 8, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "device: cuda\n"
      "data: {synthetic: true}\n";
  constexpr int world = 4;
  const config::Document document = config::parse(dense, "plan.yaml");
  const Plan plan = search_plan(document, recipe_of(dense), {}, two_nodes(), {.world = world});
  ASSERT_FALSE(plan.best.empty());
  ASSERT_LT(plan.simulated, plan.legal / 3) << "the search must simulate fewer than a third of the legal layouts";
  const StepPrices prices(two_nodes(), world);
  double best = std::numeric_limits<double>::infinity();
  for (const PlanCandidate& c : all_layouts(document, dense, world))
    best = std::min(best, forecast_step(c.recipe, {}, mesh::Layout(c.recipe.parallel.sizes(), world), prices).seconds);
  EXPECT_LE(plan.best.front().step.seconds, 1.02 * best);
}

TEST(Plan, ReturnsFittingLayoutsBestFirst) {
  const config::Document document = config::parse(yaml, "plan.yaml");
  const Plan plan = search_plan(document, recipe_of(yaml), {}, two_nodes(), {.world = ranks, .wanted = 5});
  ASSERT_EQ(plan.best.size(), 5U);
  for (size_t i = 0; i < plan.best.size(); ++i) {
    EXPECT_LT(plan.best[i].memory.total, 80e9);
    if (i > 0) {
      EXPECT_GE(plan.best[i].step.seconds, plan.best[i - 1].step.seconds);
    }
    const StepForecast& step = plan.best[i].step;
    for (const StepForecast::Stage& stage : step.stages) {
      double sum = stage.busy + stage.idle;
      for (const double seconds : stage.exposed) sum += seconds;
      EXPECT_NEAR(sum / step.seconds, 1, 1e-6);
    }
  }
}

TEST(Plan, ComparesTheRecipesOwnLayoutEvenIfTheSearchDoesNotTryIt) {
  // The search tries only powers of two for pp. No other layout of 3 ranks is legal, because there is a single
  // sequence.
  const std::string own = "parallel: {pp: 3}\n";
  const std::string model =
      "model: {layers: 6, hidden: 256, heads: 4, context: 256, vocab: 512}\n"
      "batch: {global: 1, micro: 1}\n"
      "data: {synthetic: true}\n";
  const auto plan_of = [](const std::string& text, const Cluster& cluster) {
    return search_plan(config::parse(text, "plan.yaml"), recipe_of(text), {}, cluster, {.world = 3});
  };
  const Plan plan = plan_of(model + own, two_nodes());
  ASSERT_EQ(plan.best.size(), 1U);
  EXPECT_EQ(plan.best.front().candidate.recipe.parallel.pp, 3);
  EXPECT_EQ(plan.legal, 1);
  EXPECT_LE(plan.best.front().step.seconds,
            layout_as_is(config::parse(model + own, "plan.yaml"), {}, two_nodes(), {.world = 3}).step.seconds)
      << "a layout that the search changes must become faster";
  EXPECT_TRUE(plan_of(model, two_nodes()).best.empty()) << "the recipe's own layout is illegal on 3 ranks";
  Cluster small = two_nodes();
  small.machine->memory = 1 << 20;
  EXPECT_TRUE(plan_of(model + own, small).best.empty()) << "the recipe's own layout does not fit";
}

TEST(Plan, HasTheStepsAndTheMemoryOfRunsThatShareNothing) {
  const Plan plan =
      search_plan(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, two_nodes(), {.world = ranks, .wanted = 5});
  ASSERT_FALSE(plan.best.empty());
  const StepPrices prices(two_nodes(), ranks);
  for (const PlannedLayout& l : plan.best) {
    const Recipe& r = l.candidate.recipe;
    const mesh::Layout layout(r.parallel.sizes(), ranks);
    EXPECT_EQ(l.step.seconds, forecast_step(r, {}, layout, prices).seconds) << l.candidate.to_string(ranks);
    const std::vector<MemoryEstimate> stages = estimate_stages(r, {}, ranks);
    EXPECT_EQ(l.memory.total, std::ranges::max(stages, {}, &MemoryEstimate::total).total)
        << l.candidate.to_string(ranks);
  }
}

TEST(MemoryEstimate, StopsAtTheFirstRankAboveTheLimit) {
  const Recipe r = recipe_of(yaml, {"parallel.pp=4", "parallel.ep=2"}, ranks);
  const std::vector<MemoryEstimate> stages = estimate_stages(r, {}, ranks);
  const double most = std::ranges::max(stages, {}, &MemoryEstimate::total).total;
  EXPECT_EQ(estimate_memory_within(most, r, {}, ranks).total, most);
  EXPECT_EQ(estimate_memory_within(0, r, {}, ranks).total, stages.front().total);
}

TEST(RoutedMemory, IsTheEstimateOfEachLoad) {
  const Recipe r = recipe_of(yaml, {"parallel.ep=8"}, ranks);
  const auto total = [&](RoutingLoad load) { return estimate_memory(r, {}, ranks, load).total; };
  const RoutedMemory memory = routed_memory(r, {}, ranks, total(RoutingLoad::even));
  EXPECT_EQ(memory.p99.bytes, total(RoutingLoad::p99));
  EXPECT_EQ(memory.worst.bytes, total(RoutingLoad::one_rank));
  EXPECT_GT(memory.worst.bytes, memory.even);
  EXPECT_EQ(memory.worst.times, 4)
      << "with one expert per rank, a rank may get every token instead of a quarter of them";
}

TEST(RoutedMemory, EqualsTheEvenLoadIfARankHasAllExperts) {
  const RoutedMemory memory = routed_memory(recipe_of(yaml, {}, ranks), {}, ranks, 5);
  EXPECT_EQ(memory.p99.bytes, 5);
  EXPECT_EQ(memory.worst.bytes, 5);
}

TEST(Plan, GivesTheMemoryOfAnEvenLoadEvenIfPlannedForTheWorst) {
  const Plan plan = search_plan(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, two_nodes(),
                                {.world = ranks, .load = RoutingLoad::one_rank, .wanted = 2, .details = true});
  ASSERT_FALSE(plan.best.empty());
  for (const PlannedLayout& l : plan.best) {
    EXPECT_EQ(l.routed.worst.bytes, l.memory.total) << l.candidate.to_string(ranks);
    EXPECT_EQ(l.routed.even, estimate_memory(l.candidate.recipe, {}, ranks).total) << l.candidate.to_string(ranks);
  }
}

TEST(Plan, HasTheGainsAndTheTrafficOfItsFirstLayout) {
  const Plan plan = search_plan(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, two_nodes(),
                                {.world = ranks, .wanted = 3, .details = true});
  const Recipe& r = plan.best.front().candidate.recipe;
  const Cluster more = with_more(two_nodes(), plan.gains.front().resource, unit_more);
  const StepForecast step = forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), ranks), StepPrices(more, ranks));
  EXPECT_DOUBLE_EQ(plan.gains.front().seconds, plan.best.front().step.seconds - step.seconds);
  double sent = 0, expected = 0;
  for (const GroupBytes& t : plan.traffic) sent += t.sent;
  for (const StepForecast::Stage& stage : plan.best.front().step.stages)
    for (const double bytes : stage.sent) expected += bytes / static_cast<double>(plan.best.front().step.stages.size());
  EXPECT_GT(sent, 0);
  EXPECT_NEAR(sent, expected, 1e-9 * expected);
}

TEST(Plan, LeavesOutNeedlessRecomputation) {
  const std::vector<std::string> overrides{"batch.global=4"};
  const auto planned = [&](size_t wanted) {
    return search_plan(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides, 4), {}, two_nodes(),
                       {.world = 4, .wanted = wanted});
  };
  const auto recomputes = [](const PlannedLayout& l) {
    return l.candidate.recipe.recompute != layers::Recompute::none;
  };
  const auto has_zero_2 = [](const PlannedLayout& l) { return l.candidate.recipe.parallel.zero == 2; };
  const Plan few = planned(3), all = planned(1000);
  const PlanCandidates layouts =
      plan_candidates(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides, 4), {},
                      {.world = 4, .ranks_per_domain = 8});
  EXPECT_EQ(few.needless, 2 * std::ssize(layouts.legal) / 3 + layouts.variants)
      << "all layouts fit without recomputation and with zero 1";
  EXPECT_TRUE(std::ranges::none_of(few.best, recomputes));
  EXPECT_TRUE(std::ranges::none_of(few.best, has_zero_2));
  EXPECT_EQ(all.needless, 0) << "there are fewer other layouts than requested";
  EXPECT_EQ(all.simulated, all.legal);
  EXPECT_TRUE(std::ranges::any_of(all.best, has_zero_2));
  EXPECT_FALSE(recomputes(all.best.front()));
  EXPECT_LE(all.best.front().step.seconds, few.best.front().step.seconds);
}

TEST(Plan, RecomputesActivationsThatDoNotFit) {
  Cluster small = two_nodes();
  const std::vector<std::string> overrides{"model.context=8192", "batch.global=16"};
  const auto planned = [&] {
    return search_plan(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides), {}, small,
                       {.world = ranks, .wanted = 8});
  };
  const double most = planned().best.front().memory.total;
  small.machine->memory = config::ByteSize(static_cast<int64_t>(0.5 * most));
  const Plan plan = planned();
  EXPECT_GT(plan.needless, 0);
  int recomputing = 0;
  for (PlannedLayout l : plan.best) {
    if (l.candidate.recipe.recompute == layers::Recompute::none) continue;
    ++recomputing;
    l.candidate.recipe.recompute = layers::Recompute::none;
    EXPECT_GT(estimate_memory(l.candidate.recipe, {}, ranks).total, plan.memory / 1.5) << l.candidate.to_string(ranks);
  }
  EXPECT_GT(recomputing, 0);
}

TEST(Plan, HasVariantsOfLayoutsThatDoNotFit) {
  Cluster small = two_nodes();
  small.machine->host_memory.reset();  // without known host memory, offloading is impossible
  const auto of_all_ranks = [](const std::vector<std::string>& variant) {
    std::vector<std::string> overrides{"batch.global=4"};
    overrides.insert(overrides.end(), variant.begin(), variant.end());
    return recipe_of(yaml, overrides, 4);
  };
  const double with_zero_2 = estimate_memory(of_all_ranks({"parallel.zero=2"}), {}, 4).total;
  small.machine->memory = config::ByteSize(static_cast<int64_t>(1.1 * with_zero_2 / 0.94));
  const std::vector<std::string> overrides{"batch.global=4"};
  const Plan plan = search_plan(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides, 4), {}, small,
                                {.world = 4, .wanted = 1000});
  ASSERT_GT(estimate_memory(of_all_ranks({"parallel.zero=1"}), {}, 4).total, plan.memory);
  const auto is_listed = [&](const std::string& text) {
    return std::ranges::any_of(plan.best,
                               [&](const PlannedLayout& l) { return l.candidate.to_string(4).starts_with(text); });
  };
  EXPECT_TRUE(is_listed("dp 4, zero 2, micro 1"));
  EXPECT_TRUE(is_listed("dp 4, zero 3, micro 1"));
  EXPECT_FALSE(is_listed("dp 4, zero 1, micro 1"));
}

// A node has 8 ranks. In some layouts of 96 ranks, the number of ranks that share a weight is no multiple of 8. An
// example is 12 ranks, with 8 stages.
TEST(Plan, HasLayoutsOnNumbersOfNodesThatAreNoPowerOfTwo) {
  Cluster cluster = two_nodes();
  cluster.machine->nodes = 12;
  for (const auto& [context, experts] : {std::pair("8192", "8"), {"512", "12"}}) {
    const std::vector<std::string> overrides{base::cat("model.context=", context), "batch.global=96",
                                             base::cat("model.moe.experts=", experts)};
    const Plan plan = search_plan(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides), {}, cluster,
                                  {.world = 96, .wanted = 1});
    EXPECT_FALSE(plan.best.empty()) << context;
  }
}

TEST(Plan, HasNoLayoutIfNoneFits) {
  Cluster small = two_nodes();
  small.machine->memory = config::ByteSize(1 << 20);
  const Plan plan =
      search_plan(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {}, small, {.world = ranks, .wanted = 5});
  EXPECT_TRUE(plan.best.empty());
  EXPECT_EQ(plan.too_large, plan.legal);
  EXPECT_GT(plan.least_memory, static_cast<double>(1 << 20));
}

TEST(Plan, StaysWithinTheLimitOfTheRecipe) {
  const auto planned = [](const std::vector<std::string>& overrides) {
    return search_plan(config::parse(yaml, "plan.yaml", overrides), recipe_of(yaml, overrides), {}, two_nodes(),
                       {.world = ranks, .wanted = 3});
  };
  constexpr double limit = 200 << 20;
  ASSERT_GT(planned({}).best.front().memory.total, limit) << "the limit must exclude the best layout";
  const Plan plan = planned({"memory.limit_bytes=200MiB"});
  EXPECT_EQ(plan.memory, limit);
  ASSERT_FALSE(plan.best.empty());
  for (const PlannedLayout& l : plan.best) EXPECT_LE(l.memory.blocks, limit) << l.candidate.to_string(ranks);
}

TEST(Plan, MemoryObjectiveNeedsNoMoreMemoryThanTimeObjective) {
  const config::Document document = config::parse(yaml, "plan.yaml");
  const auto best = [&](Objective objective) {
    return search_plan(document, recipe_of(yaml), {}, two_nodes(),
                       {.world = ranks, .objective = objective, .wanted = 3})
        .best.front();
  };
  EXPECT_LE(best(Objective::memory).memory.total, best(Objective::time).memory.total);
}

TEST(Plan, MemoryObjectiveBeginsNearTheMinimumOfAllLayouts) {
  const std::string dense =
      "model: {layers: 4, hidden: 1024, heads: 4, context: 1024, vocab: 1024}\n"
      "batch: {global: 8, micro: 1}\n"
      "train: {steps: 10, precision: bf16}\n"
      "device: cuda\n"
      "data: {synthetic: true}\n";
  constexpr int world = 4;
  Cluster cluster = two_nodes();
  cluster.machine->host_memory.reset();  // without known host memory, offloading is impossible
  const config::Document document = config::parse(dense, "plan.yaml");
  const Plan plan = search_plan(document, recipe_of(dense), {}, cluster,
                                {.world = world, .objective = Objective::memory, .wanted = 1});
  ASSERT_FALSE(plan.best.empty());
  double least = std::numeric_limits<double>::infinity();
  for (const PlanCandidate& c : all_layouts(document, dense, world))
    least = std::min(least, estimate_memory(c.recipe, {}, world).total);
  EXPECT_LE(plan.best.front().memory.total, 1.05 * least);
}

TEST(LayoutAsIs, IsTheRecipesOwnLayout) {
  const std::vector<std::string> own{"parallel.ep=8", "parallel.pp=2", "parallel.order=tp-cp-ep-dp-pp",
                                     "schedule.pipeline.split=[3,5]"};
  const PlannedLayout l =
      layout_as_is(config::parse(yaml, "plan.yaml", own), {}, two_nodes(), {.world = ranks, .wanted = 1});
  const Recipe r = recipe_of(yaml, own, ranks);
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  EXPECT_EQ(l.step.seconds, forecast_step(r, {}, layout, StepPrices(two_nodes(), ranks)).seconds);
  EXPECT_EQ(l.memory.total, estimate_memory(r, {}, ranks).total);
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
  EXPECT_EQ(settings["parallel.order"], "tp-cp-ep-dp-pp");
  EXPECT_EQ(settings["schedule.pipeline.split"], "[3, 5]");
}

TEST(LayoutAsIs, ThrowsIfTheLayoutIsIllegal) {
  const config::Document document = config::parse(yaml, "plan.yaml", std::vector<std::string>{"parallel.pp=3"});
  EXPECT_THROW(layout_as_is(document, {}, two_nodes(), {.world = ranks}), config::RecipeError);
}

}  // namespace
}  // namespace hexad::tests
