// Keys of optim that the precision or the optimizer does not support are reported with the reason.
#include <gtest/gtest.h>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, MomentsInBf16NeedAdamwAndAPrecisionBelowF64) {
  EXPECT_EQ(recipe_of(yaml).optim.moment_dtype, optim::MomentDtype::f32);
  for (const char* precision : {"train.precision=bf16", "train.precision=f32"})
    EXPECT_EQ(recipe_of(yaml, {precision, "optim.moment_dtype=bf16"}).optim.moment_dtype, optim::MomentDtype::bf16);
  EXPECT_EQ(recipe_of(yaml, {"train.seed=7"}).optim.seed, 7u);
  EXPECT_EQ(problem({"train.precision=f64", "optim.moment_dtype=bf16"}),
            "command line: optim.moment_dtype=bf16: optim.moment_dtype (bf16) must be f32 for train.precision: f64, "
            "because f32 then means moments in f64");
  EXPECT_EQ(problem({"optim.name=sgd", "optim.moment_dtype=bf16"}),
            "command line: optim.moment_dtype=bf16: optim.moment_dtype (bf16) must be f32 for the optimizer sgd, whose "
            "states are never in bf16");
}

TEST(Recipe, RestsOfMainWeightsNeedAdamwAndBf16Weights) {
  EXPECT_EQ(recipe_of(yaml).optim.main_weights, optim::MainWeights::f32);
  EXPECT_EQ(recipe_of(yaml, {"train.precision=bf16", "optim.main_weights=rest"}).optim.main_weights,
            optim::MainWeights::rest);
  for (const char* precision : {"f32", "f64"})
    EXPECT_EQ(problem({base::cat("train.precision=", precision), "optim.main_weights=rest"}),
              base::cat("command line: optim.main_weights=rest: optim.main_weights (rest) must be f32 for "
                        "train.precision: ",
                        precision, ", because rest stores only the bits that bf16 weights lack"));
  EXPECT_EQ(problem({"train.precision=bf16", "optim.name=sgd", "optim.main_weights=rest"}),
            "command line: optim.main_weights=rest: optim.main_weights (rest) must be f32 for the optimizer sgd, which "
            "cannot update main weights stored as rests");
}

TEST(Recipe, OverlapOfUpdatesNeedsElementwiseUpdates) {
  EXPECT_FALSE(recipe_of(yaml).optim.overlap);
  for (const char* name : {"adamw", "sgd"})
    EXPECT_TRUE(recipe_of(yaml, {base::cat("optim.name=", name), "optim.overlap=true"}).optim.overlap);
  EXPECT_EQ(problem({"optim.name=muon", "optim.overlap=true"}),
            "command line: optim.overlap=true: optim.overlap (true) must be false for the optimizer muon, whose "
            "updates of matrices need the host and other ranks");
}

}  // namespace
}  // namespace hexad::tests
