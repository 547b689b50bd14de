// Candidates of layouts in which ranks use a trained model.
#include "tools/train/checkpoint/open_on_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
namespace {

// Returns the recipes of the candidates, best first.
std::vector<Recipe> recipes_of(const Recipe& recipe, int64_t world, TrainedUse use) {
  std::vector<Recipe> all;
  for (const std::vector<std::string>& overrides : layout_candidates(recipe, world, use)) {
    std::vector<std::string> keys{"model.heads=8", "model.layers=8", "model.context=16"};
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    all.push_back(small_recipe(keys));
  }
  return all;
}

TEST(LayoutCandidates, GenerationDividesTheWorkForATokenFirst) {
  const auto all = recipes_of(small_recipe(), 4, TrainedUse::generation);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().parallel.tp, 4);
  EXPECT_EQ(all.front().parallel.pp, 1);
  EXPECT_EQ(all.front().parallel.ep, 4) << "the four experts are spread over the ranks";
  EXPECT_EQ(all.front().parallel.etp, 1);
}

TEST(LayoutCandidates, EvaluationGivesRanksDifferentSequencesFirst) {
  const auto all = recipes_of(small_recipe(), 4, TrainedUse::evaluation);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().parallel.tp, 1);
  EXPECT_EQ(all.front().parallel.pp, 1);
  EXPECT_EQ(all.front().parallel.ep, 4);
}

TEST(LayoutCandidates, AllFitTheRanks) {
  for (const int world : {2, 3, 4, 6, 8})
    for (const TrainedUse use : {TrainedUse::generation, TrainedUse::evaluation})
      for (const auto& overrides : layout_candidates(small_recipe(), world, use)) {
        Recipe recipe = small_recipe();
        const auto value_of = [&](const std::string& key, int64_t& value) {
          for (const std::string& o : overrides)
            if (o.starts_with(key + "=")) value = std::stoll(o.substr(key.size() + 1));
        };
        value_of("parallel.pp", recipe.parallel.pp), value_of("parallel.tp", recipe.parallel.tp);
        value_of("parallel.ep", recipe.parallel.ep);
        if (std::ranges::find(overrides, "parallel.etp=1") != overrides.end()) recipe.parallel.etp = 1;
        EXPECT_NO_THROW(mesh::Layout(recipe.parallel.sizes(), world)) << world << " ranks";
      }
}

}  // namespace
}  // namespace hexad::tests
