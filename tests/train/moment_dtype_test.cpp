// Losses, memory and checkpoints of training runs with optim.moment_dtype: bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/checkpoint_estimate.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

Recipe recipe_with(const std::string& moments, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.precision=bf16", "optim.moment_dtype=" + moments});
  return small_recipe(more);
}

std::vector<double> losses(const Recipe& recipe, int steps) {
  TrainingRun run(recipe, self);
  const FixedSource source = documents_of(recipe);
  std::vector<double> all;
  for (int s = 0; s < steps; ++s) all.push_back(run.step(source).loss);
  return all;
}

// The choice of experts is fixed, because rounding, like any other change, would otherwise send some tokens to other
// experts.
TEST(Bf16Moments, LossesStayNearThoseWithF32MomentsForFiftySteps) {
  const std::vector<std::string> fixed{"train.steps=50", "model.moe.routing=balanced"};
  const std::vector<double> exact = losses(recipe_with("f32", fixed), 50),
                            rounded = losses(recipe_with("bf16", fixed), 50);
  EXPECT_LT(exact.back(), exact.front() - 0.5) << "the loss must fall";
  EXPECT_NE(exact, rounded);
  for (size_t s = 0; s < exact.size(); ++s) EXPECT_NEAR(rounded[s], exact[s], 0.1) << "step " << s + 1;
}

TEST(Bf16Moments, TakeEightBytesPerParameterInsteadOfTwelve) {
  const auto bytes = [](const std::string& moments) {
    TrainingRun run(recipe_with(moments, {"model.hidden=128", "model.vocab=256", "model.moe.expert_hidden=128"}), self);
    return static_cast<double>(run.instance.context.allocator()->stats().used_in(device::Category::optimizer));
  };
  EXPECT_NEAR(bytes("bf16") / bytes("f32"), 8.0 / 12, 0.01);
}

TEST(Bf16Moments, AreCountedInTheEstimateOfACheckpoint) {
  const auto bytes = [](const std::string& moments) { return plan::checkpoint_bytes(recipe_with(moments), {}); };
  EXPECT_DOUBLE_EQ(bytes("bf16") / bytes("f32"), 8.0 / 12);
}

// Saves a run of `from` after one step, checks the stored dtypes, and loads the checkpoint into a run of `to`. Returns
// the states of both runs.
std::pair<TensorMap, TensorMap> saved_and_loaded(Recipe from, Recipe to) {
  const Scratch scratch;
  from.run.dir = to.run.dir = scratch.path();
  TrainingRun saved(from, self), loaded(to, self);
  saved.step(documents_of(from));
  saved.save();
  loaded.load(scratch / "checkpoints/step-00000001");
  const auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000001", io::Check::full);
  for (const auto& t : checkpoint.manifest().tensors) {
    const bool moment = t.kind == io::Kind::moment1 || t.kind == io::Kind::moment2;
    EXPECT_EQ(t.dtype, moment ? from.optim.state_dtype(Dtype::f32) : Dtype::f32) << t.name;
  }
  return {saved.states(), loaded.states()};
}

TEST(Bf16Moments, CheckpointLoadsIntoARunWithTheOtherDtype) {
  const auto [wide, narrowed] = saved_and_loaded(recipe_with("f32"), recipe_with("bf16"));
  const auto [narrow, widened] = saved_and_loaded(recipe_with("bf16"), recipe_with("f32"));
  int moments = 0;
  for (const auto& [name, t] : wide) {
    SCOPED_TRACE(name);
    if (name.find("/moment") == std::string::npos) {
      expect_bitwise(t, narrowed.at(name), Zeros::expected);
      expect_bitwise(narrow.at(name), widened.at(name), Zeros::expected);
      continue;
    }
    ++moments;
    EXPECT_EQ(narrowed.at(name).dtype(), Dtype::bf16);
    EXPECT_EQ(widened.at(name).dtype(), Dtype::f32);
    const auto exact = values_of(t), got = values_of(narrowed.at(name));
    for (size_t i = 0; i < exact.size(); ++i)
      ASSERT_EQ(got[i], static_cast<double>(bf16(static_cast<float>(exact[i]))))
          << "not rounded to nearest even: element " << i;
    EXPECT_EQ(values_of(widened.at(name)), values_of(narrow.at(name)));
  }
  EXPECT_GT(moments, 0);
}

// Levels 0 and 1 of ZeRO give bitwise identical results if each rank has one micro-batch.
TEST(Bf16Moments, RunContinuesBitwiseWithRepartitionedStates) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const auto recipe = [](int zero, const char* offload) {
      return recipe_with("bf16", {"batch.global=4", cat("parallel.zero=", zero), cat("offload.optimizer=", offload)});
    };
    expect_resumed_bitwise(recipe(1, "file"), recipe(0, "none"), world);
  });
}

}  // namespace
}  // namespace hexad::tests
