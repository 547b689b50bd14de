// Work after a step: evaluation, saves and the end of gathers.
#include "tools/train/recipe/due.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/training/training.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::tests {

using namespace train;
namespace {

const std::string yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  moe: {experts: 8}
batch: {global: 8, micro: 2}
data: {synthetic: true}
train: {steps: 6}
)";

// Returns the steps of a stage after which `member` is due.
std::vector<int64_t> steps_of(const Recipe& recipe, bool Due::*member, int64_t stage = 0) {
  const int64_t first = stage == 0 ? 1 : last_step(recipe, stage - 1) + 1;
  std::vector<int64_t> steps;
  for (int64_t step = first; step <= last_step(recipe, stage); ++step)
    if (due_after(recipe, stage, step).*member) steps.push_back(step);
  return steps;
}

using Steps = std::vector<int64_t>;

TEST(Due, OnlyTheLastStepIsSavedWithoutPeriods) {
  const Recipe recipe = recipe_of(yaml);
  EXPECT_EQ(steps_of(recipe, &Due::evaluation), Steps{});
  EXPECT_EQ(steps_of(recipe, &Due::save), Steps{});
  EXPECT_EQ(steps_of(recipe, &Due::last_save), Steps{6});
  EXPECT_EQ(steps_of(recipe, &Due::weights), Steps{6});
}

TEST(Due, LastStepEvaluatesNoSample) {
  Recipe recipe = recipe_of(yaml);
  recipe.train.eval_every = 3;
  EXPECT_EQ(steps_of(recipe, &Due::evaluation), Steps{3});
  EXPECT_EQ(steps_of(recipe, &Due::weights), (Steps{3, 6}));
}

TEST(Due, LastStepMayHaveARegularSaveIfAtEndIsOff) {
  Recipe recipe = recipe_of(yaml);
  recipe.checkpoint.every = 2;
  recipe.checkpoint.at_end = false;
  EXPECT_EQ(steps_of(recipe, &Due::save), (Steps{2, 4, 6}));
  EXPECT_EQ(steps_of(recipe, &Due::last_save), Steps{});
}

TEST(Due, ReplicaChecksEndGathersOnly) {
  Recipe recipe = recipe_of(yaml);
  recipe.distributed.replica_check_every = 4;
  EXPECT_EQ(steps_of(recipe, &Due::weights), (Steps{4, 6}));
  EXPECT_EQ(steps_of(recipe, &Due::save), Steps{});
  EXPECT_EQ(steps_of(recipe, &Due::evaluation), Steps{});
}

TEST(Due, StagesBeforeTheLastAreAlwaysSaved) {
  Recipe recipe = recipe_of(yaml + "stages:\n  - steps: 2\n  - steps: 4\n");
  recipe.checkpoint.at_end = false;
  EXPECT_EQ(steps_of(with_stage(recipe, 0), &Due::last_save, 0), Steps{2});
  EXPECT_EQ(steps_of(with_stage(recipe, 1), &Due::last_save, 1), Steps{});
}

}  // namespace
}  // namespace hexad::tests
