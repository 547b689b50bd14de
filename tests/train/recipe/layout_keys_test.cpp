// Layouts that the model, the batch or the number of ranks do not allow are reported with the nearest legal values.
#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, ExpertsMustSpreadEvenly) {
  EXPECT_EQ(problem({"model.moe.experts=63", "parallel.ep=8"}),
            "command line: model.moe.experts=63: model.moe.experts (63) must be divisible by parallel.ep (8); nearest: "
            "56, 64");
}

TEST(Recipe, IllegalLayoutIsReportedWithItsLine) {
  std::string text = yaml;
  text.replace(text.find("ep: 1"), 5, "ep: 3");
  EXPECT_EQ(message_of(ExitCode::usage, [&] { recipe_of(text); }),
            "test.yaml:6: model.moe.experts (8) must be divisible by parallel.ep (3); nearest: 6, 9");
}

TEST(Recipe, BatchMustSpreadEvenly) {
  EXPECT_EQ(problem({}, 8),
            "test.yaml:8: batch.global (8) must be divisible by batch.micro x dp (2 x 8 = 16); nearest: 16; or "
            "batch.micro: 1");
  EXPECT_EQ(problem({"batch.global=40"}, 8),
            "command line: batch.global=40: batch.global (40) must be divisible by batch.micro x dp (2 x 8 = 16); "
            "nearest: 32, 48; or batch.micro: 1");
  EXPECT_EQ(problem({"batch.micro=3"}),
            "test.yaml:8: batch.global (8) must be divisible by batch.micro (3); nearest: 6, 9");
}

TEST(Recipe, EpMustDivideTheRanks) {
  EXPECT_EQ(
      problem({"parallel.ep=4"}, 2),
      "command line: parallel.ep=4: parallel.ep (4) x etp (1) must divide the 2 ranks of a stage (dp 2 x cp 1 x tp 1); "
      "nearest ep: 2");
}

TEST(Recipe, OrderNamesEveryAxisOnce) {
  const auto wrong = [](const std::string& order) { return problem({"parallel.order=" + order}, 4); };
  const std::string expected = "; expected tp, cp, ep, dp and pp once each, joined by '-'; the nearest legal order is ";
  const auto line = [&](const std::string& order, const std::string& what) {
    return "command line: parallel.order=" + order + ": parallel.order (" + order + ") " + what + expected +
           "tp-cp-ep-dp-pp";
  };
  EXPECT_EQ(wrong("tp-cp-xp-dp-pp"), line("tp-cp-xp-dp-pp", "has an axis 'xp', lacks ep"));
  EXPECT_EQ(wrong("tp-cp-ep-tp-pp"), line("tp-cp-ep-tp-pp", "names tp twice, lacks dp"));
  EXPECT_EQ(wrong("tp-cp-dp-pp"), line("tp-cp-dp-pp", "lacks ep"));
  EXPECT_EQ(problem({"parallel.order=tp-cp-dp-pp"}), line("tp-cp-dp-pp", "lacks ep"));
  EXPECT_EQ(recipe_of(yaml, {"parallel.order=tp-cp-dp-ep-pp"}, 4).parallel.sizes().order, "tp-cp-dp-ep-pp");
  EXPECT_EQ(recipe_of(yaml, {"parallel.order=auto"}, 4).parallel.sizes().order, "");
}

TEST(Recipe, OrderGivesARankOneStageAndPlacesTheExperts) {
  const std::vector<std::string> split{"parallel.pp=2", "parallel.tp=2", "parallel.ep=2", "parallel.etp=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), split.begin(), split.end());
    return more;
  };
  for (int64_t world : {0, 8})
    EXPECT_NE(
        problem(with({"parallel.order=tp-pp-cp-ep-dp"}), world)
            .find("parallel.order (tp-pp-cp-ep-dp) puts pp after tp 2 = 2 ranks of dense layers, but after etp 1 = "
                  "1 rank of experts"),
        std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, with({"parallel.order=tp-cp-ep-dp-pp"}), 8));
  EXPECT_NE(problem({"parallel.order=tp-cp-ep-dp-pp", "parallel.cp_expansion=vertical"}, 4)
                .find("parallel.cp_expansion (vertical) must be auto, because parallel.order (tp-cp-ep-dp-pp) places"),
            std::string::npos);
}

// Replicas of tokens reach every part of an expert only if all ranks that share the expert hold the same tokens.
TEST(Recipe, ReplicatedTokensNeedEtpGroupsInsideTpGroups) {
  const std::vector<std::string> split{"parallel.tp=2", "parallel.ep=2", "parallel.etp=2",
                                       "schedule.moe.duplicates=replicated"};
  const auto under = [&](const std::string& order) {
    std::vector<std::string> all = split;
    all.push_back("parallel.order=" + order);
    return all;
  };
  EXPECT_NO_THROW(recipe_of(yaml, under("tp-cp-dp-ep-pp"), 4));
  EXPECT_NE(problem(under("ep-tp-cp-dp-pp"), 4)
                .find("schedule.moe.duplicates (replicated) needs every etp group inside one tp group"),
            std::string::npos);
}

TEST(Recipe, DenseModelHasNoExpertParallelism) {
  EXPECT_EQ(problem({"parallel.ep=2", "model.moe.experts=0"}),
            "command line: parallel.ep=2: parallel.ep (2) must be 1 for a model without experts");
}

}  // namespace
}  // namespace hexad::tests
