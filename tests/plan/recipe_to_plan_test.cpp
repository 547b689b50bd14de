#include "tools/plan/recipe_to_plan.h"

#include <gtest/gtest.h>

namespace hexad::tests {

using namespace plan;

namespace {

const std::string model = "model: {vocab: 64, layers: 4, hidden: 64, heads: 8, context: 64}\ndata: {synthetic: true}\n";

RecipeToPlan loaded(const std::string& more) { return load_to_plan(config::parse(model + more, "r.yaml"), {}); }

TEST(RecipeToPlan, KeepsALayoutThatIsLegalForSomeNumberOfRanks) {
  const RecipeToPlan r = loaded("parallel: {tp: 4, pp: 2}\n");
  EXPECT_EQ(r.ignored, "");
  EXPECT_EQ(r.recipe.parallel.tp, 4);
  EXPECT_TRUE(r.document.root.find("parallel")->find("tp"));
}

TEST(RecipeToPlan, IgnoresALayoutThatIsAlwaysIllegal) {
  const RecipeToPlan r = loaded("parallel: {tp: 3, zero: 1}\nbatch: {global: 8, micro: 3}\n");
  EXPECT_NE(r.ignored.find("r.yaml:"), r.ignored.npos) << r.ignored;
  EXPECT_EQ(r.ignored.find('\n'), r.ignored.npos) << r.ignored;
  EXPECT_EQ(r.recipe.parallel.tp, 1);
  EXPECT_EQ(r.recipe.batch.global, 8);
  EXPECT_FALSE(r.document.root.find("parallel")->find("tp"));
  EXPECT_FALSE(r.document.root.find("batch")->find("micro"));
}

TEST(RecipeToPlan, RefusesOtherProblems) {
  for (const char* bad :
       {"parallel: {ttp: 3}\n", "parallel: {tp: 0}\n", "parallel: {tp: 3}\noptim: {freeze: [nowhere]}\n"})
    EXPECT_THROW(loaded(bad), config::RecipeError) << bad;
}

}  // namespace
}  // namespace hexad::tests
