// Keys of routers and shared experts that contradict each other are reported with the reason.
#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, RoutingMustBePossible) {
  EXPECT_EQ(problem({"model.moe.top_k=9"}),
            "command line: model.moe.top_k=9: model.moe.top_k (9) must be at most model.moe.experts (8)");
  EXPECT_EQ(problem({"model.moe.groups=3"}),
            "test.yaml:6: model.moe.experts (8) must be divisible by model.moe.groups (3); nearest: 6, 9");
  EXPECT_EQ(problem({"model.moe.top_groups=2"}),
            "command line: model.moe.top_groups=2: model.moe.top_groups (2) must be at most model.moe.groups (1)");
  EXPECT_EQ(problem({"model.moe.groups=4", "model.moe.top_k=3"}),
            "command line: model.moe.top_k=3: model.moe.top_k (3) must be at most 2, the number of experts in "
            "model.moe.top_groups (1) of model.moe.groups (4); set a smaller top_k or more top_groups");
  EXPECT_NE(
      problem({"model.moe.group_score=best"})
          .find("model.moe.group_score (best) ranks groups, but a token may choose from all groups: "
                "model.moe.top_groups is model.moe.groups (1); set groups above top_groups, or group_score: best_two"),
      std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, {"model.moe.groups=4", "model.moe.top_groups=2", "model.moe.group_score=best"}));
  EXPECT_NE(problem({"model.moe.dense_layers=4"}).find("but no layer has experts"), std::string::npos);
  EXPECT_NE(problem({"model.moe.routing=trace"}).find("must name a file for model.moe.routing: trace"),
            std::string::npos);
}

TEST(Recipe, KeysOfRoutersAndSharedExpertsMustAgree) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  expect({"model.moe.shared_gate=true"},
         "model.moe.shared_gate (true) must be false for model.moe.shared_experts: 0, which has no result to gate");
  expect({"model.moe.normalize=false", "model.moe.normalize_floor=0.1"},
         "model.moe.normalize_floor (0.1) must be 0 for model.moe.normalize: false, which divides no weights");
  expect({"model.moe.mixer_jitter=0.1"}, "model.moe.mixer_jitter (0.1) is not read by the router top_k");
  EXPECT_EQ(recipe_of(yaml, {"model.moe.mixer_jitter=0.1", "model.moe.router=sparse_mixer"}).model.moe.mixer_jitter,
            0.1);
  expect({"model.moe.scale=2", "model.moe.router=sparse_mixer"},
         "model.moe.scale (2) is not read by the router sparse_mixer");
  expect(
      {"model.moe.selection_bias=false", "model.moe.bias_rate=0.1"},
      "model.moe.selection_bias (false) must be auto or true for model.moe.bias_rate (0.1), which changes this bias");
  EXPECT_TRUE(recipe_of(yaml, {"model.moe.bias_rate=0.1"}).model.moe.has_selection_bias());
  EXPECT_FALSE(recipe_of(yaml, {}).model.moe.has_selection_bias());
}

TEST(Recipe, ExpertsChooseTokensOnlyInEncodersWithACapacity) {
  std::vector<std::string> keys{"model.moe.router=expert_choice", "model.kind=encoder", "model.moe.capacity_factor=0.5",
                                "model.moe.aux_loss.coefficient=0"};
  EXPECT_TRUE(recipe_of(yaml, keys).model.moe.experts_choose());
  const auto with = [&](const char* change) {
    std::vector<std::string> all = keys;
    all.emplace_back(change);
    return problem(all);
  };
  const auto expect = [&](const char* change, const char* text) {
    EXPECT_NE(with(change).find(text), std::string::npos) << with(change);
  };
  expect("model.kind=decoder", "model.kind (decoder) must be encoder for model.moe.router: expert_choice, because");
  expect("model.moe.capacity_factor=none", "must be a number for model.moe.router: expert_choice");
  expect("model.moe.capacity_factor=1.5",
         "model.moe.capacity_factor (1.5) must be at most 1 for model.moe.router: expert_choice, because experts");
  expect("model.moe.aux_loss.coefficient=0.01",
         "model.moe.aux_loss.coefficient (0.01) must be 0 for model.moe.router: expert_choice");
  expect("model.moe.drop=position", "model.moe.drop (position) must be probability for");
  expect("model.moe.routing=balanced", "model.moe.routing (balanced) must be model for");
  expect("model.moe.bias_rate=0.1", "model.moe.bias_rate (0.1) must be 0 for the router expert_choice");
  expect("model.moe.score=sigmoid", "model.moe.score (sigmoid) is not read by the router expert_choice");
}

}  // namespace
}  // namespace hexad::tests
