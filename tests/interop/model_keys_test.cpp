// Keys of models in recipes and configs.
#include "tools/interop/model_keys.h"

#include <gtest/gtest.h>

#include "tests/interop/golden_configs.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
namespace {

TEST(ModelKeys, RoundTripThroughARecipe) {
  for (const Family& family : families()) {
    const ModelKeys keys = keys_of_config(golden_config(std::string(family.model_type)));
    const ModelKeys again = ModelKeys::from_recipe(config::parse(keys.yaml(), "recipe"), "recipe");
    EXPECT_EQ(ModelKeys::differences(keys, again), std::vector<std::string>()) << family.model_type;
  }
}

TEST(ModelKeys, RecipeNamesTheWidthOfSharedExpertsOnlyIfThereAreSome) {
  int without = 0, with = 0;
  for (const Family& family : families()) {
    const ModelKeys keys = keys_of_config(golden_config(std::string(family.model_type)));
    const bool shared = keys.integer("model.moe.shared_experts") > 0;
    ++(shared ? with : without);
    EXPECT_EQ(keys.yaml().find("shared_hidden") != std::string::npos, shared) << family.model_type;
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

// Earlier versions of the import wrote shared_hidden into recipes of models without shared experts.
TEST(ModelKeys, WidthOfMissingSharedExpertsChangesNoModel) {
  const std::string yaml = "model: {layers: 2, moe: {experts: 4, expert_hidden: 32";
  const auto keys = [](const std::string& text) {
    return ModelKeys::from_recipe(config::parse(text, "recipe"), "recipe");
  };
  EXPECT_EQ(ModelKeys::differences(keys(yaml + "}}"), keys(yaml + ", shared_hidden: 64}}")),
            std::vector<std::string>());
}

TEST(ModelKeys, QkNormTrueOfOlderRecipesMeansTheNormOfHeads) {
  const auto keys = ModelKeys::from_recipe(config::parse("model: {qk_norm: true}", "recipe"), "recipe");
  EXPECT_EQ(keys.text("model.qk_norm"), "head");
}

TEST(ModelKeys, AnotherTypeIsRefusedWithItsText) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      ModelKeys::from_recipe(config::parse(text, "recipe"), "recipe");
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("model: {layers: [1, 2]}"), "recipe: model.layers is [1, 2], expected a whole number");
  EXPECT_EQ(refusal("model: {layers: two}"), "recipe: model.layers is 'two', expected a whole number");
  EXPECT_EQ(refusal("model: {rotary_scaling: {long_factors: [1, wide]}}"),
            "recipe: model.rotary_scaling.long_factors is [1, wide], expected a list of numbers");
}

}  // namespace
}  // namespace hexad::tests
