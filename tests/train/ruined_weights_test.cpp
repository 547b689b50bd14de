// Saving or loading NaN weights is an error.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/io/checkpoint_writer.h"
#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

Recipe recipe_in(const Scratch& scratch) {
  Recipe r = small_recipe();
  r.run.dir = scratch.path();
  return r;
}

void ruin(TrainingRun& run) {
  Parameter& head = run.instance.parameters.find("head.weight");
  change<double>(head.local(), [](std::span<double> values) { values[3] = std::nan(""); });
}

TEST(RuinedWeights, SaveRefusesNanWeightsAndLeavesNoFile) {
  const Scratch scratch;
  TrainingRun run(recipe_in(scratch), self);
  ruin(run);
  EXPECT_EQ(message_of(ExitCode::numeric, [&] { run.save(); }),
            "checkpoint of step 0 was not saved: main: 'head.weight' [31, 16] holds nan at element 3; expected finite "
            "values");
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/step-00000000"));
}

TEST(RuinedWeights, LoadNamesTheTensor) {
  const Scratch scratch;
  TrainingRun run(recipe_in(scratch), self);
  ruin(run);
  // Another program could write such a checkpoint: it is complete and its digests are correct, but a weight is NaN.
  const io::CheckpointStore store(scratch / "checkpoints");
  io::CheckpointWriter writer(store, 1);
  writer.create();
  std::vector<io::ShardItem> items;
  for (const auto& p : run.instance.parameters) {
    Shape begin = p->global_shape();
    for (int d = 0; d < begin.rank(); ++d) begin[d] = 0;
    items.push_back({p->name(), io::Kind::main, p->global_shape(), {begin, p->global_shape()}, p->local()});
  }
  const std::vector<std::string> parts{writer.write_shard(0, 1, items)};
  io::RunState state;
  state.step = 1;
  state.recipe = config::write(run.recipe);
  writer.commit(state, parts);

  auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000001", io::Check::full);
  const std::string message =
      message_of(ExitCode::numeric, [&] { Checkpointer::load_weights(checkpoint, run.instance); });
  EXPECT_NE(message.find("step-00000001: 'head.weight' [31, 16] holds nan at element 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace hexad::tests
