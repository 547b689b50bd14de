// JSON output of `hexad plan` for plans that the tests make up.
#include "tools/hexad/commands/plan_json.h"

#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/hexad/commands/plan_contexts.h"

namespace hexad::tests {
namespace {

using namespace app;
using namespace plan;
using Json = nlohmann::ordered_json;

const std::string yaml =
    "model: {layers: 2, hidden: 64, heads: 4, context: 512, vocab: 128}\n"
    "batch: {global: 16, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

constexpr int64_t ranks = 8;

// Returns a layout that needs `bytes` of memory, and whose step takes `seconds`, all in kernels.
PlannedLayout layout_with(double seconds, double bytes, const std::vector<std::string>& overrides = {}) {
  PlannedLayout l{.candidate = {recipe_of(yaml, overrides, ranks)}, .composed = {}};
  l.step.seconds = seconds;
  l.step.stages = {{.rank = 0, .busy = seconds}};
  l.memory.total = bytes;
  return l;
}

class PlanJson : public testing::Test {
 protected:
  Planned planned(Objective objective) const {
    return {.recipe_path = "a.yaml",
            .cluster_path = "c.yaml",
            .recipe = recipe_,
            .extensions = extensions_,
            .cluster = cluster_,
            .prices = prices_,
            .routing = "even",
            .load = load_,
            .ranks = ranks,
            .objective = objective};
  }
  static Plan plan() {
    Plan plan;
    plan.best = {layout_with(2, 1e9), layout_with(3, 1e9, {"parallel.pp=2"})};
    plan.memory = 2e9;
    return plan;
  }

 private:
  const Recipe recipe_ = recipe_of(yaml, {}, ranks);
  const train::Extensions extensions_;
  const Cluster cluster_ = two_nodes();
  const Prices prices_{cluster_};
  const RoutingLoad load_ = RoutingLoad::even;
};

TEST_F(PlanJson, ListsInsufficientNumbersOfRanks) {
  const std::vector<FewestRanks::Refused> fewer{{1, 0, std::numeric_limits<double>::infinity()}, {2, 5, 3e9}};
  const Json json = plan_json(planned(Objective::ranks), plan(), 0.5, fewer);
  const Json& refused = json["refused_ranks"];
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_EQ(refused[0]["ranks"], 1);
  EXPECT_EQ(refused[0]["legal"], 0);
  EXPECT_TRUE(refused[0]["least_memory_bytes"].is_null());
  EXPECT_EQ(refused[1]["ranks"], 2);
  EXPECT_EQ(refused[1]["legal"], 5);
  EXPECT_EQ(refused[1]["least_memory_bytes"], 3e9);
  EXPECT_FALSE(plan_json(planned(Objective::time), plan(), 0.5, {}).contains("refused_ranks"));
}

TEST_F(PlanJson, DescribesTheSearchAndItsLayouts) {
  Plan two = plan();
  two.simulated = 7;
  const Json json = plan_json(planned(Objective::time), two, 0.5, {});
  EXPECT_EQ(json["context"], 512);
  EXPECT_EQ(json["objective"], "time");
  EXPECT_EQ(json["simulated"], 7);
  EXPECT_EQ(json["search_seconds"], 0.5);
  EXPECT_EQ(json["tensor_memory_bytes"], 2e9);
  EXPECT_EQ(json["not_modelled"], unmodelled_costs());
  ASSERT_EQ(json["layouts"].size(), 2U);
  EXPECT_EQ(json["layouts"][0]["layout"], two.best[0].candidate.to_string(ranks));
}

TEST_F(PlanJson, HasTheGainsOfMoreMemoryAndOfTwiceTheRanks) {
  Plan two = plan();
  EXPECT_FALSE(plan_json(planned(Objective::time), two, 0.5, {}).contains("capacity_gain"));
  two.capacity = {.more_memory = layout_with(1.5, 2.2e9), .twice_ranks = {}};
  Json gain = plan_json(planned(Objective::time), two, 0.5, {})["capacity_gain"];
  EXPECT_EQ(gain["memory_factor"], 1.25);
  EXPECT_EQ(gain["more_memory"]["step_seconds"], 1.5);
  EXPECT_EQ(gain["more_memory"]["memory_bytes"], 2.2e9);
  EXPECT_TRUE(gain["twice_ranks"].is_null());
  two.capacity = {.more_memory = {}, .twice_ranks = layout_with(1.25, 1e9)};
  gain = plan_json(planned(Objective::time), two, 0.5, {})["capacity_gain"];
  EXPECT_TRUE(gain["more_memory"].is_null());
  EXPECT_EQ(gain["twice_ranks"]["ranks"], 2 * ranks);
  EXPECT_EQ(gain["twice_ranks"]["step_seconds"], 1.25);
  EXPECT_EQ(gain["twice_ranks"]["efficiency"], 0.8);  // 2 s with the ranks, 1.25 s with twice the ranks
  EXPECT_EQ(gain["twice_ranks"]["tokens_per_second"], 16 * 512 / 1.25);
}

TEST_F(PlanJson, ExplainsTheSecondLayoutAndTheGivenRecipe) {
  const OwnLayout own{.layout = layout_with(4, 3e9, {"parallel.pp=2"}), .problem = {}};
  const Plan two = plan();
  const WalkStep begin{.layout = {.candidate = two.best[0].candidate, .price = {.seconds = 2, .memory = 1e9}},
                       .changed = {}};
  const WalkStep end{.layout = {.candidate = two.best[1].candidate, .price = {.seconds = 3, .memory = 1e9}},
                     .changed = {{"parallel.pp", "1", "2"}, {"dp", "8", "4"}}};
  const Json json =
      explanation_json(planned(Objective::time), two, {.own = own, .to_second = {begin, end}, .to_own = {begin}});
  const Json& walk = json["to_second"]["walk"];
  ASSERT_EQ(walk.size(), 2U);
  EXPECT_EQ(walk[0]["step_seconds"], 2.0);
  EXPECT_TRUE(walk[0]["changed"].empty());
  EXPECT_EQ(walk[1]["step_seconds"], 3.0);
  EXPECT_EQ(walk[1]["memory_bytes"], 1e9);
  EXPECT_EQ(walk[1]["layout"], two.best[1].candidate.to_string(ranks));
  EXPECT_EQ(walk[1]["changed"]["dp"], (Json{"8", "4"}));
  EXPECT_EQ(json["to_recipe_as_it_is"]["walk"].size(), 1U);
  EXPECT_EQ(json["to_second"]["changed_seconds"]["kernels"], (Json{2.0, 3.0}));
  EXPECT_EQ(json["to_second"]["changed_settings"]["parallel.pp"], (Json{"1", "2"}));
  EXPECT_EQ(json["to_second"]["changed_settings"]["schedule.pipeline.kind"], (Json{"-", "1f1b"}));
  const Json& as_is = json["to_recipe_as_it_is"];
  EXPECT_EQ(as_is["step_seconds"], 4.0);
  EXPECT_EQ(as_is["memory_bytes"], 3e9);
  EXPECT_EQ(as_is["fits"], false);
  EXPECT_EQ(as_is["changed_seconds"]["kernels"], (Json{2.0, 4.0}));
}

TEST_F(PlanJson, ReportsWhyTheGivenRecipeHasNoStepTime) {
  const Json json =
      explanation_json(planned(Objective::time), plan(), {.own = {.layout = {}, .problem = "no legal layout"}});
  EXPECT_EQ(json["to_recipe_as_it_is"], (Json{{"error", "no legal layout"}}));
}

TEST(PathJson, NamesTheShortfallAndTheNearestFit) {
  const auto plan_at = [](const PlanQuestion& q) {
    Plan plan;
    plan.memory = 10;
    PlannedLayout l = layout_with(1, static_cast<double>(q.context) / static_cast<double>(q.ranks));
    if (q.any_memory || l.memory.total <= plan.memory) plan.best.push_back(l);
    return plan;
  };
  const std::vector<int64_t> lengths{64, 128};
  // The points need 8 and 16 bytes. The plan has memory for 10 bytes.
  const std::vector<PathPoint> path = expansion_path(plan_at, {.lengths = lengths, .ranks = 8, .max_ranks = 8});
  const Json json = path_json(plan_at, path, 8);
  EXPECT_EQ(json["path"][0]["fits"], true);
  EXPECT_EQ(json["path"][0]["layout"], path[0].layout->candidate.to_string(8));
  EXPECT_EQ(json["path"][1]["fits"], false);
  EXPECT_EQ(json["path"][1]["legal"], true);
  EXPECT_EQ(json["path"][1]["missing_bytes"], 6.0);
  EXPECT_EQ(json["path"][1]["tensor_memory_bytes"], 10.0);
  EXPECT_EQ(json["longest_that_fits"], (Json{{"context", 64}, {"ranks", 8}, {"nodes", 1}}));
  const Json& nearest = json["nearest_that_fits"];
  EXPECT_EQ(nearest["context"], 128);
  EXPECT_EQ(nearest["ranks"], 16);
  EXPECT_EQ(nearest["nodes"], 2);
  EXPECT_EQ(nearest["memory_bytes"], 8.0);
}

}  // namespace
}  // namespace hexad::tests
