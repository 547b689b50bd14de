// Imported models give the same results under a parallel layout as on one rank, and can be exported again.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/io/checkpoint_store.h"
#include "parallel/comm/self_group.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

class ImportedLayouts : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { interop::import_model(golden_folder(GetParam()), imported_); }

  Recipe recipe(std::vector<std::string> overrides) const {
    const std::vector<std::string> common{"batch.global=4",     "batch.micro=1",        "data.synthetic=true",
                                          "train.steps=10",     "train.threads=1",      "train.precision=f64",
                                          "optim.lr=0.01",      "train.init_from=\"\"", "optim.schedule=constant",
                                          cat("run.dir=", run_)};
    overrides.insert(overrides.begin(), common.begin(), common.end());
    return recipe_of(read_text(imported_ + "/recipe.yaml"), overrides, overrides.size() > common.size() ? 4 : 1);
  }

  Scratch scratch_;
  const std::string imported_ = scratch_ / "imported", run_ = scratch_ / "run";
};

TEST_P(ImportedLayouts, TrainAsOnOneRankAndAreExported) {
  const comm::SelfGroup self;
  const Recipe one = recipe({});
  const FixedSource source = documents_of(one);
  TrainingRun alone(one, self);
  alone.init_from(imported_);
  const Trajectory expected = trajectory(alone, source, 2);
  std::vector<std::string> layout{"parallel.pp=2", "parallel.tp=2"};
  if (one.model.moe.experts > 0) layout.insert(layout.end(), {"parallel.ep=2", "parallel.etp=1"});
  const Recipe four = recipe(layout);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(four, world);
    run.init_from(imported_);
    expect_close(expected, trajectory(run, source, 2), 1e-9);
    run.save();
  });

  io::Checkpoint saved = io::CheckpointStore(run_ + "/checkpoints").open(2, io::Check::full);
  interop::export_model(saved, scratch_ / "exported", {.like = imported_});
  interop::import_model(scratch_ / "exported", scratch_ / "again");
  io::Checkpoint again = io::Checkpoint::open(scratch_ / "again", io::Check::full);
  device::DeviceContext memory;
  for (const auto& [name, weights] : expected.weights) {
    const std::vector<double> before = values_of(weights), after = values_of(again.read(name, io::Kind::main, memory));
    ASSERT_EQ(before.size(), after.size()) << name;
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(after[i], before[i], 1e-6 * std::max(1.0, std::abs(before[i]))) << name << " " << i;  // f32 rounding
  }
}
INSTANTIATE_TEST_SUITE_P(, ImportedLayouts,
                         testing::Values("qwen2_moe", "olmoe", "ernie4_5_moe", "glm4_moe", "mixtral", "minimax_m2",
                                         "llama4_text", "phimoe", "dbrx", "qwen3"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace hexad::tests
