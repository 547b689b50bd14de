// Layouts with which a run continues on another number of ranks.
#include "tools/plan/nearest_layout.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

const std::string model =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 512, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 64, micro: 2}\n"
    "train: {steps: 10}\n"
    "data: {synthetic: true}\n";

bool fits_always(const Recipe&, int64_t) { return true; }

std::optional<NearestLayout> nearest(const std::string& parallel, int64_t ranks, const FitsMemory& fits = fits_always) {
  const std::string yaml = model + parallel;
  return nearest_layout(config::parse(yaml, "recipe.yaml"), recipe_of(yaml), {}, {.fewest = 1, .most = ranks}, fits);
}

TEST(NearestLayout, IsTheRecipesLayoutIfItIsLegal) {
  for (const char* parallel :
       {"parallel: {tp: 2, sp: true, pp: 2, ep: 4, etp: 1}\n", "parallel: {cp: 2, ep: 4, cp_expansion: vertical}\n",
        "parallel: {pp: 2, ep: 2}\nschedule: {pipeline: {kind: zb_h1, split: [3, 5]}}\n"})
    for (const int64_t ranks : {8, 16}) {
      const auto layout = nearest(parallel, ranks);
      ASSERT_TRUE(layout) << parallel;
      EXPECT_EQ(layout->ranks, ranks) << parallel;
      EXPECT_EQ(layout->changes, Changes{}) << parallel;
    }
}

TEST(NearestLayout, IsLegalOnItsRanksAndKeepsTheBatch) {
  for (const char* parallel : {"parallel: {tp: 2, sp: true, pp: 2, ep: 4}\n", "parallel: {ep: 8}\n",
                               "parallel: {pp: 4, ep: 4}\nschedule: {pipeline: {split: [1, 2, 2, 3]}}\n",
                               "parallel: {tp: 4, ep: 2, etp: 2}\n"})
    for (int64_t ranks = 1; ranks <= 16; ++ranks) {
      const auto layout = nearest(parallel, ranks);
      ASSERT_TRUE(layout) << parallel << ranks;
      EXPECT_LE(layout->ranks, ranks);
      std::vector<std::string> overrides;
      for (const auto& [key, value] : layout->changes) {
        EXPECT_FALSE(key.starts_with("batch.")) << key;
        overrides.push_back(key + "=" + value);
      }
      const Recipe read = recipe_of(model + parallel, overrides, layout->ranks);  // throws if it is illegal
      EXPECT_EQ(read.batch.global, 64);
      EXPECT_EQ(read.batch.micro, 2);
    }
}

TEST(NearestLayout, LosesDataParallelRanksFirstAndThenExpertRanks) {
  EXPECT_EQ(nearest("parallel: {tp: 2, ep: 2}\n", 8)->changes, Changes{});
  const auto fewer = nearest("parallel: {ep: 8}\n", 7);
  EXPECT_EQ(fewer->ranks, 4);  // 7, 6 and 5 data-parallel ranks do not divide 32 micro-batches
  EXPECT_EQ(fewer->changes, (Changes{{"parallel.ep", "4"}}));
}

TEST(NearestLayout, LeavesRanksIdleRatherThanChangeTheOtherSizes) {
  const auto layout = nearest("parallel: {ep: 2}\n", 15);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks, 8);
  EXPECT_EQ(layout->changes, Changes{});
}

TEST(NearestLayout, ChangesOtherSizesIfFewerRanksAreNotAllowed) {
  std::string yaml = model + "parallel: {tp: 4}\n";
  yaml.replace(yaml.find("global: 64"), 10, "global: 12");  // 6 micro-batches
  const auto layout = [&](RankRange range) {
    return nearest_layout(config::parse(yaml, "recipe.yaml"), recipe_of(yaml), {}, range, fits_always);
  };
  EXPECT_EQ(layout({.fewest = 1, .most = 6})->ranks, 4);
  EXPECT_EQ(layout({.fewest = 4, .most = 6})->ranks, 4);
  const auto all = layout({.fewest = 5, .most = 6});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->ranks, 6);
  EXPECT_EQ(all->changes, (Changes{{"parallel.tp", "2"}}));
  EXPECT_FALSE(layout({.fewest = 11, .most = 11}));
}

TEST(NearestLayout, DividesSequencesIfThereAreMoreRanksThanMicroBatches) {
  const auto layout = nearest("parallel: {ep: 4}\n", 4096);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks, 4096);  // 32 micro-batches x 128 cp ranks
  EXPECT_EQ(layout->changes, (Changes{{"parallel.cp", "128"}}));
}

TEST(NearestLayout, SkipsLayoutsThatExceedTheMemory) {
  const FitsMemory only_eight = [](const Recipe& r, int64_t ranks) { return ranks == 8 && r.parallel.tp == 2; };
  const auto layout = nearest("parallel: {ep: 4}\n", 16, only_eight);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks, 8);
  EXPECT_EQ(layout->recipe.parallel.tp, 2);
  EXPECT_FALSE(nearest("parallel: {ep: 4}\n", 16, [](const Recipe&, int64_t) { return false; }));
}

}  // namespace
}  // namespace hexad::tests
