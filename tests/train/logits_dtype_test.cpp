// Losses and memory of training runs with train.logits_dtype: bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/tolerance.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

Recipe recipe_with(const std::string& of_logits, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.precision=bf16", "train.logits_dtype=" + of_logits});
  return small_recipe(more);
}

// Returns the losses of `steps` steps on `ranks` ranks.
std::vector<double> losses(const Recipe& recipe, int steps, int ranks = 1) {
  const FixedSource source = documents_of(recipe);
  std::vector<double> all;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    for (int s = 0; s < steps; ++s) {
      const double loss = run.step(source).loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}

// The choice of experts is fixed, because rounding, like any other change, would otherwise send some tokens to other
// experts.
TEST(Bf16Logits, LossesStayNearThoseWithF32LogitsForFiftySteps) {
  const std::vector<std::string> fixed{"train.steps=50", "model.moe.routing=balanced"};
  const std::vector<double> exact = losses(recipe_with("f32", fixed), 50),
                            rounded = losses(recipe_with("bf16", fixed), 50);
  EXPECT_LT(exact.back(), exact.front() - 0.5) << "the loss must fall";
  EXPECT_NE(exact, rounded);
  for (size_t s = 0; s < exact.size(); ++s) EXPECT_NEAR(rounded[s], exact[s], 0.1) << "step " << s + 1;
}

// The first step has the same weights in all runs.
TEST(Bf16Logits, LossOfTheFirstStepAgreesForEveryDivisionOfTheVocabularyAndWithPredictionBlocks) {
  for (const std::string blocks : {"0", "1"}) {
    const std::vector<std::string> one{"model.prediction_blocks=" + blocks};
    const std::vector<std::string> tensors{"model.prediction_blocks=" + blocks, "parallel.tp=2"};
    const Recipe recipe = recipe_with("f32", one);
    const double expected = losses(recipe, 1).front();
    const double allowed = rounded_step_tolerance(Dtype::bf16, recipe.batch.global * recipe.model.context,
                                                  recipe.model.layers) /
                           8 * expected;  // the tolerance of `hexad verify` for losses
    EXPECT_NEAR(losses(recipe_with("bf16", one), 1).front(), expected, allowed);
    const double divided = losses(recipe_with("bf16", tensors), 1, 2).front();
    EXPECT_NEAR(divided, expected, allowed);
    EXPECT_NE(divided, losses(recipe_with("f32", tensors), 1, 2).front()) << "the logits were not rounded";
  }
}

// The vocabulary is so large that a rank needs the most memory while it computes the loss.
TEST(Bf16Logits, LowerThePeakOfAStepByTwoThirdsOfABlock) {
  const auto peak = [](const std::string& of_logits) {
    const Recipe recipe = recipe_with(of_logits, {"model.vocab=4096", "batch.micro=8"});
    TrainingRun run(recipe, self);
    const FixedSource source = documents_of(recipe);
    run.step(source);
    run.instance.context.allocator()->reset_peaks();
    run.step(source);
    return run.instance.context.allocator()->stats().peak_total;
  };
  const int64_t rows = 8 * 8, saved = 4 * rows * 4096;  // f32 logits and a bf16 gradient take six bytes instead of two
  EXPECT_NEAR(static_cast<double>(peak("f32") - peak("bf16")), static_cast<double>(saved), 0.05 * saved);
}

}  // namespace
}  // namespace hexad::tests
