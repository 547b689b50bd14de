// Frozen parameters of models with few layers.
#include "tools/plan/frozen_periods.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;

namespace {

std::vector<FrozenPeriods> kinds_of(const std::vector<std::string>& overrides) {
  return frozen_periods(small_recipe(overrides), {});
}

bool freezes(const FrozenPeriods& kind, const std::string& name) { return std::ranges::count(kind.freeze, name) == 1; }

TEST(FrozenPeriods, ModelsWithoutFrozenParametersHaveOneKind) {
  const std::vector<FrozenPeriods> kinds = kinds_of({"model.layers=6"});
  ASSERT_EQ(kinds.size(), 1u);
  EXPECT_TRUE(kinds[0].freeze.empty());
  EXPECT_EQ(kinds[0].share, 1);
}

TEST(FrozenPeriods, LayersWithTheSameFrozenParametersAreOneKind) {
  const std::vector<FrozenPeriods> kinds =
      kinds_of({"model.layers=8", "optim.freeze=[embedding.weight, \"*.router.*\"]"});
  ASSERT_EQ(kinds.size(), 1u);
  EXPECT_EQ(kinds[0].freeze,
            (std::vector<std::string>{"embedding.weight", "layers.0.moe.router.weight", "layers.1.moe.router.weight"}));
}

TEST(FrozenPeriods, KindsHaveTheirShareOfThePeriods) {
  const std::vector<FrozenPeriods> kinds = kinds_of({"model.layers=8", "optim.freeze=[\"layers.[2-7].*\"]"});
  ASSERT_EQ(kinds.size(), 2u);
  const FrozenPeriods &trained = kinds[0], &frozen = kinds[1];
  EXPECT_TRUE(trained.freeze.empty());
  EXPECT_EQ(trained.share, 0.25);
  EXPECT_TRUE(freezes(frozen, "layers.0.attention.q.weight") && freezes(frozen, "layers.1.attention.q.weight"));
  EXPECT_FALSE(freezes(frozen, "layers.2.attention.q.weight"));
  EXPECT_EQ(frozen.share, 0.75);
}

TEST(FrozenPeriods, FirstLayersKeepTheirOwnFrozenParameters) {
  const std::vector<FrozenPeriods> kinds =
      kinds_of({"model.layers=9", "model.moe.dense_layers=1", "model.moe.every=2", "model.mlp_hidden=12",
                "optim.freeze=[layers.0.*, layers.7.*, layers.8.*]"});
  ASSERT_EQ(kinds.size(), 2u);
  for (const FrozenPeriods& kind : kinds) EXPECT_TRUE(freezes(kind, "layers.0.mlp.down.weight"));
  EXPECT_FALSE(freezes(kinds[0], "layers.1.mlp.down.weight"));
  EXPECT_TRUE(freezes(kinds[1], "layers.1.mlp.down.weight") && freezes(kinds[1], "layers.4.moe.router.weight"));
  EXPECT_EQ(kinds[1].share, 0.25);
}

}  // namespace
}  // namespace hexad::tests
