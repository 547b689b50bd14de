// Checkpoints, frozen parameters and recipe keys of training runs with optim.name: muon.
#include <gtest/gtest.h>

#include <algorithm>

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

Recipe muon_recipe(std::vector<std::string> more = {}) {
  more.insert(more.begin(), "optim.name=muon");
  return small_recipe(more);
}

TEST(MuonTraining, RunContinuesBitwiseUnderAnotherLevelOfZero) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const auto recipe = [](int zero, const char* offload) {
      return muon_recipe({"batch.global=4", cat("parallel.zero=", zero), cat("offload.optimizer=", offload)});
    };
    expect_resumed_bitwise(recipe(1, "none"), recipe(0, "none"), world);
    expect_resumed_bitwise(recipe(0, "none"), recipe(3, "none"), world);
    expect_resumed_bitwise(recipe(2, "file"), recipe(1, "none"), world);
  });
}

TEST(MuonTraining, CheckpointOfCutMatricesLoadsOnOneRank) {
  const Scratch scratch;
  TensorMap saved;
  const auto recipe = [&](const std::vector<std::string>& layout) {
    Recipe r = muon_recipe(layout);
    r.run.dir = scratch.path();
    return r;
  };
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe({"parallel.tp=2", "parallel.etp=2", "parallel.zero=1"}), world);
    for (int s = 0; s < 2; ++s) run.step(documents_of(run.recipe));
    run.save();
    TensorMap all = run.states();
    if (world.rank() == 0) saved = std::move(all);
  });
  TrainingRun run(recipe({}), self);
  run.load(scratch / "checkpoints/step-00000002");
  expect_bitwise(saved, run.states());
  const auto momenta = std::ranges::count_if(saved, [](const auto& s) { return s.first.ends_with("/momentum"); });
  EXPECT_GT(momenta, 0);
}

// In f64, the main weights are the weights themselves.
TEST(MuonTraining, EstimateOfACheckpointCountsOneStateOfAMatrixAndTwoOfOtherParameters) {
  const Recipe recipe = muon_recipe();
  TrainingRun run(recipe, self);
  int64_t bytes = 0;
  for (const auto& s : run.optimizer.states()) bytes += s.tensor.bytes();
  EXPECT_DOUBLE_EQ(plan::checkpoint_bytes(recipe, {}), static_cast<double>(bytes));
  EXPECT_LT(bytes, static_cast<int64_t>(plan::checkpoint_bytes(small_recipe(), {})));
}

TEST(MuonTraining, FrozenParametersHaveNoStatesAndDoNotChange) {
  const Recipe recipe = muon_recipe({"optim.freeze=[layers.0.*]"});
  const auto frozen = [](const std::string& name) { return name.starts_with("layers.0."); };
  TrainingRun run(recipe, self);
  for (const auto& s : run.optimizer.states()) EXPECT_FALSE(frozen(s.parameter->name())) << s.parameter->name();
  const TensorMap before = run.weights();
  run.step(documents_of(recipe));
  for (const auto& [name, weights] : run.weights())
    EXPECT_EQ(values_of(weights) == values_of(before.at(name)), frozen(name)) << name;
}

TEST(MuonTraining, KeysThatDoNotFitTheOptimizerOrTheModelAreRefused) {
  const auto refusal = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      small_recipe(overrides);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_NE(refusal({"optim.muon_momentum=0.5"})
                .find("optim.muon_momentum (0.5) is given, but optim.name is adamw; expected muon"),
            std::string::npos);
  EXPECT_NE(refusal({"optim.name=muon", "optim.muon_except=[layers.9.*]"})
                .find("has the pattern 'layers.9.*', which matches no parameter"),
            std::string::npos);
  EXPECT_NE(refusal({"optim.name=muon", "optim.moment_dtype=bf16"}).find("optim.moment_dtype"), std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
