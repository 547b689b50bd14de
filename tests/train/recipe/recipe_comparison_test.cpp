// Changes of a model between two recipes of a run.
#include "tools/train/recipe/recipe_comparison.h"

#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, ExplicitBiasesEqualAutomaticBiases) {
  const auto changes = [](const std::vector<std::string>& before, const std::vector<std::string>& now) {
    return changes_of_model(recipe_of(yaml, before), recipe_of(yaml, now));
  };
  const std::vector<std::string> none;
  EXPECT_EQ(changes({"model.bias=true"},
                    {"model.bias=true", "model.qkv_bias=true", "model.o_bias=true", "model.moe.expert_bias=true"}),
            none);
  EXPECT_EQ(changes({"model.qkv_bias=false", "model.moe.selection_bias=false"}, {}), none);
  EXPECT_EQ(changes({}, {"model.qkv_bias=true"}), std::vector<std::string>{"model.qkv_bias: auto -> true"});
  EXPECT_EQ(changes({"model.moe.selection_bias=true"}, {}),
            std::vector<std::string>{"model.moe.selection_bias: true -> auto"});
}

// Imports once wrote the width of the shared experts into recipes of models without shared experts.
TEST(Recipe, WidthOfMissingSharedExpertsMayChangeDuringARun) {
  const auto changes = [](const std::vector<std::string>& before, const std::vector<std::string>& now) {
    return changes_of_model(recipe_of(yaml, before), recipe_of(yaml, now));
  };
  EXPECT_EQ(changes({"model.moe.shared_experts=0", "model.moe.shared_hidden=32"}, {"model.moe.shared_experts=0"}),
            std::vector<std::string>{});
  EXPECT_EQ(changes({"model.moe.shared_experts=1", "model.moe.shared_hidden=32"}, {"model.moe.shared_experts=1"}),
            std::vector<std::string>{"model.moe.shared_hidden: 32 -> auto"});
}

TEST(Recipe, ParametersThatMuonUpdatesMayNotChangeDuringARun) {
  const Recipe before = recipe_of(yaml, {"optim.name=muon"});
  EXPECT_EQ(changes_of_model(before, recipe_of(yaml, {"optim.name=muon", "optim.muon_except=[head.weight]"})),
            std::vector<std::string>{"optim.muon_except: [] -> [head.weight]"});
  EXPECT_EQ(changes_of_model(before, recipe_of(yaml, {"optim.name=muon", "optim.muon_momentum=0.9"})),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace hexad::tests
