// Results, memory and checkpoints of training runs with optim.main_weights: rest.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/checkpoint_estimate.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

Recipe recipe_with(const std::string& main_weights, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.precision=bf16", "optim.main_weights=" + main_weights});
  return small_recipe(more);
}

// Trains four steps on `ranks` ranks. Returns the trajectory on rank 0.
Trajectory trained(const Recipe& recipe, int ranks) {
  const FixedSource source = documents_of(recipe);
  Trajectory result;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Trajectory t = trajectory(run, source, 4);
    if (world.rank() == 0) result = std::move(t);
  });
  return result;
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class MainWeights : public testing::TestWithParam<Case> {};

TEST_P(MainWeights, StoredAsRestsGiveABitwiseIdenticalRun) {
  const auto& [name, ranks, overrides] = GetParam();
  expect_bitwise(trained(recipe_with("f32", overrides), ranks), trained(recipe_with("rest", overrides), ranks));
}

INSTANTIATE_TEST_SUITE_P(
    , MainWeights,
    testing::Values(Case{"Plain", 1, {}}, Case{"Bf16Moments", 1, {"optim.moment_dtype=bf16"}},
                    Case{"Bf16Gradients", 1, {"optim.grad_dtype=bf16", "optim.moment_dtype=bf16"}},
                    Case{"Offloaded", 1, {"offload.optimizer=file"}},
                    Case{"Zero1", 2, {"parallel.zero=1", "distributed.bucket_bytes=8192"}},
                    Case{"Zero2", 2, {"parallel.zero=2", "distributed.bucket_bytes=8192", "offload.optimizer=file"}},
                    Case{"Zero3", 2, {"parallel.zero=3", "distributed.bucket_bytes=8192"}},
                    Case{"ExpertsZero1", 4, {"parallel.ep=2", "parallel.zero=1", "optim.moment_dtype=bf16"}},
                    Case{"Tied", 1, {"model.tied_embedding=true"}}),
    [](const auto& i) { return i.param.name; });

TEST(RestsOfMainWeights, TakeTenBytesPerParameterInsteadOfTwelve) {
  const auto bytes = [](const std::string& main_weights) {
    TrainingRun run(recipe_with(main_weights, {"model.hidden=128", "model.vocab=256", "model.moe.expert_hidden=128"}),
                    self);
    return static_cast<double>(run.instance.context.allocator()->stats().used_in(device::Category::optimizer));
  };
  EXPECT_NEAR(bytes("rest") / bytes("f32"), 10.0 / 12, 0.01);
}

TEST(RestsOfMainWeights, DoNotChangeTheEstimateOfACheckpoint) {
  const auto bytes = [](const std::string& main_weights) {
    return plan::checkpoint_bytes(recipe_with(main_weights), {});
  };
  EXPECT_DOUBLE_EQ(bytes("rest"), bytes("f32"));
}

// Returns the digests of the tensors in the checkpoint of the second step, by stored name and dtype.
std::map<std::string, std::string> saved_tensors(Recipe recipe) {
  const Scratch scratch;
  recipe.run.dir = scratch.path();
  TrainingRun run(recipe, self);
  for (int s = 0; s < 2; ++s) run.step(documents_of(recipe));
  run.save();
  std::map<std::string, std::string> digests;
  const auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000002", io::Check::full);
  for (const auto& t : checkpoint.manifest().tensors)
    for (const auto& piece : t.pieces) digests[cat(piece.stored, " ", t.dtype)] = piece.digest;
  return digests;
}

TEST(RestsOfMainWeights, AreSavedAsF32) {
  const auto plain = saved_tensors(recipe_with("f32"));
  EXPECT_GT(plain.size(), 10u);
  EXPECT_EQ(plain, saved_tensors(recipe_with("rest")));
}

TEST(RestsOfMainWeights, RunContinuesBitwiseUnderAnotherSettingOrLayout) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const auto recipe = [](const char* main_weights, int zero, const char* offload) {
      return recipe_with(main_weights,
                         {"batch.global=4", cat("parallel.zero=", zero), cat("offload.optimizer=", offload)});
    };
    expect_resumed_bitwise(recipe("f32", 1, "none"), recipe("rest", 0, "none"), world);
    expect_resumed_bitwise(recipe("rest", 1, "file"), recipe("f32", 0, "none"), world);
    expect_resumed_bitwise(recipe("rest", 0, "none"), recipe("rest", 1, "file"), world);
    expect_resumed_bitwise(recipe("rest", 3, "none"), recipe("rest", 2, "none"), world);
  });
}

// The run that loads the checkpoint has trained further, so loading must replace the rests of this run.
TEST(RestsOfMainWeights, AreReplacedByACheckpoint) {
  const Scratch scratch;
  Recipe recipe = recipe_with("rest");
  recipe.run.dir = scratch.path();
  TrainingRun saved(recipe, self), later(recipe, self);
  saved.step(documents_of(recipe));
  saved.save();
  for (int s = 0; s < 3; ++s) later.step(documents_of(recipe));
  later.load(scratch / "checkpoints/step-00000001");
  expect_bitwise(saved.states(), later.states());
  expect_bitwise(saved.weights(), later.weights());
}

}  // namespace
}  // namespace hexad::tests
