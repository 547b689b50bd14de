// Recomputation, offloading, interruption and a start from the weights of another run must not change any bit of the
// results.
#include <gtest/gtest.h>

#include <filesystem>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A tested model, as overrides of small_recipe().
struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
std::string name_of_case(const testing::TestParamInfo<Case>& i) { return i.param.name; }

class Bitwise : public testing::TestWithParam<Case> {};

TEST_P(Bitwise, RecomputedEqualsKept) {
  const Recipe recipe = small_recipe(GetParam().overrides);
  const FixedSource source = documents_of(recipe);
  const Trajectory kept = one_rank_trajectory(recipe, source, 3);
  for (const char* recompute : {"norms", "attention", "block"}) {
    SCOPED_TRACE(testing::Message() << "recompute " << recompute);
    Recipe r = small_recipe(with(GetParam().overrides, {std::string("recompute=") + recompute}));
    expect_bitwise(kept, one_rank_trajectory(r, source, 3));
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      Recipe two = recipe;
      two.parallel.ep = 2;
      TrainingRun plain(two, world);
      two.recompute = r.recompute;
      TrainingRun recomputed(two, world);
      expect_bitwise(trajectory(plain, source, 2), trajectory(recomputed, source, 2));
    });
  }
}

TEST_P(Bitwise, OffloadedEqualsKept) {
  const Recipe recipe = small_recipe(GetParam().overrides);
  const FixedSource source = documents_of(recipe);
  const Trajectory kept = one_rank_trajectory(recipe, source, 3);
  for (const char* recompute : {"none", "norms", "block"}) {
    SCOPED_TRACE(testing::Message() << "recompute " << recompute);
    const Recipe r = small_recipe(with(GetParam().overrides, {"offload.activations=true", "offload.min_bytes=0",
                                                              std::string("recompute=") + recompute}));
    expect_bitwise(kept, one_rank_trajectory(r, source, 3));
  }
}

TEST_P(Bitwise, ResumedEqualsUninterruptedOnOneAndTwoRanks) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(cat(ranks, " ranks"));
    const Scratch scratch;
    Recipe recipe = small_recipe(with(GetParam().overrides, {"run.dir=" + scratch.path(), "optim.schedule=cosine"}));
    recipe.parallel.ep = ranks;
    const FixedSource source = documents_of(recipe);
    on_ranks(ranks, [&](const comm::ProcessGroup& world) {
      TrainingRun uninterrupted(recipe, world);
      const Trajectory all = trajectory(uninterrupted, source, 5);
      {
        TrainingRun first(recipe, world);
        for (int s = 0; s < 3; ++s) first.step(source);
        first.save();
      }
      TrainingRun second(recipe, world);
      second.load(scratch / "checkpoints/step-00000003");
      EXPECT_EQ(second.progress.step, 3);
      EXPECT_EQ(second.progress.next_sequence, 24);
      EXPECT_EQ(second.progress.tokens, 3 * 64);
      Trajectory rest = trajectory(second, source, 2);
      rest.steps.insert(rest.steps.begin(), all.steps.begin(), all.steps.begin() + 3);
      expect_bitwise(all, rest);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Bitwise,
    testing::Values(Case{"F64", {}}, Case{"F32", {"train.precision=f32"}}, Case{"Bf16", {"train.precision=bf16"}},
                    Case{"CapacityAndBias",
                         {"train.precision=f32", "model.moe.capacity_factor=0.9", "model.moe.bias_rate=0.05",
                          "model.moe.aux_loss.scope=global_batch"}},
                    Case{"ZipfRouting", {"model.moe.routing=zipf", "model.moe.shared_experts=1"}},
                    Case{"LayerNormAndQkNorm",
                         {"train.precision=f32", "model.norm=layer_norm", "model.qk_norm=true", "model.bias=true"}}),
    name_of_case);

// Runs the training loop of the program. A run that continues from the checkpoint of the third step must end with the
// same tensors as the uninterrupted run. The learning rate depends on the step.
TEST(Trainer, ResumedRunEndsWithTheSameTensors) {
  const Scratch whole, resumed;
  const auto run = [&](const Scratch& folder) {
    const comm::World world;
    Recipe recipe =
        small_recipe({"run.dir=" + folder.path(), "train.steps=6", "checkpoint.every=3", "checkpoint.keep=0",
                      "train.precision=f32", "model.moe.bias_rate=0.01", "optim.schedule=cosine", "optim.warmup=2"});
    return Trainer(recipe, Registry(), world).run();
  };
  ASSERT_EQ(run(whole), ExitCode::done);
  std::filesystem::create_directories(resumed / "checkpoints");
  std::filesystem::copy(whole / "checkpoints/step-00000003", resumed / "checkpoints/step-00000003",
                        std::filesystem::copy_options::recursive);
  ASSERT_EQ(run(resumed), ExitCode::done);
  auto a = io::Checkpoint::open(whole / "checkpoints/step-00000006", io::Check::full);
  auto b = io::Checkpoint::open(resumed / "checkpoints/step-00000006", io::Check::full);
  ASSERT_EQ(a.manifest().tensors.size(), b.manifest().tensors.size());
  for (const auto& t : a.manifest().tensors)
    for (const auto& other : b.manifest().tensors) {
      if (other.name != t.name || other.kind != t.kind) continue;
      ASSERT_EQ(other.pieces.size(), t.pieces.size());
      for (size_t p = 0; p < t.pieces.size(); ++p) EXPECT_EQ(t.pieces[p].digest, other.pieces[p].digest) << t.name;
    }
}

class InitFrom : public testing::TestWithParam<const char*> {};

TEST_P(InitFrom, StartsANewRunAtTheWeightsOfAnother) {
  const Scratch first, second;
  const auto run = [&](const Scratch& folder, const std::vector<std::string>& more) {
    const comm::World world;
    std::vector<std::string> keys{"run.dir=" + folder.path(), "train.steps=1",
                                  std::string("train.precision=") + GetParam()};
    keys.insert(keys.end(), more.begin(), more.end());
    return Trainer(small_recipe(keys), Registry(), world).run();
  };
  const std::string weights = first / "checkpoints/step-00000001";
  ASSERT_EQ(run(first, {}), ExitCode::done);
  // A learning rate of zero leaves the initial weights unchanged. Another seed would draw other initial weights.
  ASSERT_EQ(run(second, {"train.init_from=" + weights, "train.seed=7", "optim.lr=0"}), ExitCode::done);
  auto a = io::Checkpoint::open(weights, io::Check::full);
  auto b = io::Checkpoint::open(second / "checkpoints/step-00000001", io::Check::full);
  EXPECT_EQ(b.step(), 1);
  int compared = 0;
  for (const auto& t : a.manifest().tensors) {
    if (t.kind != io::Kind::main) continue;
    const io::TensorRecord& other = b.record(t.name, t.kind);
    ASSERT_EQ(other.pieces.size(), t.pieces.size());
    for (size_t p = 0; p < t.pieces.size(); ++p) EXPECT_EQ(t.pieces[p].digest, other.pieces[p].digest) << t.name;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

// In bf16, the optimizer has main weights in addition to the weights.
INSTANTIATE_TEST_SUITE_P(Precision, InitFrom, testing::Values("f64", "bf16"), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace hexad::tests
