// Frozen parameters (optim.freeze) keep their values, and have neither gradients nor optimizer states.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "framework/base/name_pattern.h"
#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/start_check.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
using device::Category;
namespace {

const comm::SelfGroup self;
constexpr int steps = 2;
constexpr double rounding_of_f64 = 1e-10;
// Freezes the embedding, a whole block, a weight whose bias is trained, and biases whose weights are trained.
const std::string freeze =
    "optim.freeze=[embedding.weight, layers.0.*, layers.1.moe.experts.gate_up.weight, layers.1.moe.experts.down.bias, "
    "layers.1.attention.*.bias]";

Recipe frozen_recipe(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{freeze, "model.bias=true", "batch.global=16"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

bool is_frozen(const Recipe& recipe, const std::string& name) { return matches_any(recipe.optim.freeze, name); }

TEST(Freeze, ParametersKeepTheirValuesAndOthersChange) {
  const Recipe recipe = frozen_recipe();
  const FixedSource source = documents_of(recipe);
  TrainingRun run(recipe, self);
  const TensorMap before = run.weights();
  for (int s = 0; s < steps; ++s) run.step(source);
  const TensorMap after = run.weights();
  int frozen = 0, trained = 0;
  for (const auto& [name, was] : before) {
    SCOPED_TRACE(name);
    const bool same = values_of(was) == values_of(after.at(name));
    EXPECT_EQ(same, is_frozen(recipe, name));
    ++(is_frozen(recipe, name) ? frozen : trained);
  }
  EXPECT_GT(frozen, 5);
  EXPECT_GT(trained, 5);
}

TEST(Freeze, ParametersHaveNeitherGradientsNorStates) {
  const Recipe recipe = frozen_recipe();
  const FixedSource source = documents_of(recipe);
  TrainingRun run(recipe, self);
  int64_t trained = 0;
  for (const auto& p : run.instance.parameters) {
    EXPECT_EQ(p->trainable(), !is_frozen(recipe, p->name())) << p->name();
    if (p->trainable()) trained += p->shape().numel();
  }
  int64_t moments = 0;
  for (const auto& s : run.optimizer.states()) {
    EXPECT_TRUE(s.parameter->trainable()) << s.parameter->name();
    if (s.kind == "moment1") moments += s.tensor.numel();
  }
  EXPECT_EQ(moments, trained);
  const auto gradient_bytes = [&] { return run.instance.context.allocator()->stats().used_in(Category::gradient); };
  const int64_t before = gradient_bytes();
  run.step(source);
  EXPECT_EQ(gradient_bytes(), before);
  TrainingRun whole(small_recipe({"model.bias=true", "batch.global=16"}), self);
  EXPECT_LT(before, whole.instance.context.allocator()->stats().used_in(Category::gradient));
}

TEST(Freeze, OtherGradientsAreUnchangedAndTheNormContainsOnlyThem) {
  const Recipe recipe = frozen_recipe();
  const FixedSource source = documents_of(recipe);
  TrainingRun frozen(recipe, self), whole(small_recipe({"model.bias=true", "batch.global=16"}), self);
  const StepResult result = frozen.step(source);
  EXPECT_EQ(result.loss, whole.step(source).loss);
  const TensorMap all = whole.gradients(), some = frozen.gradients();
  EXPECT_LT(some.size(), all.size());
  double squares = 0;
  for (const auto& [name, gradient] : some) {
    SCOPED_TRACE(name);
    EXPECT_FALSE(is_frozen(recipe, name));
    EXPECT_EQ(values_of(gradient), values_of(all.at(name)));
    for (const double g : values_of(gradient)) squares += g * g;
  }
  EXPECT_NEAR(result.grad_norm, std::sqrt(squares), rounding_of_f64 * result.grad_norm);
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> layout;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class FreezeLayouts : public testing::TestWithParam<Case> {};

TEST_P(FreezeLayouts, EqualsOneRank) {
  const Recipe alone = frozen_recipe(), recipe = frozen_recipe(GetParam().layout);
  const FixedSource source = documents_of(alone);
  const Trajectory one = one_rank_trajectory(alone, source, steps);
  Trajectory result;
  on_ranks(GetParam().ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Trajectory t = trajectory(run, source, steps);
    if (world.rank() == 0) result = std::move(t);
  });
  expect_close(one, result, rounding_of_f64);
}

INSTANTIATE_TEST_SUITE_P(
    , FreezeLayouts,
    testing::Values(Case{"Experts", 2, {"parallel.ep=2"}}, Case{"Tensors", 4, {"parallel.tp=2", "parallel.ep=2"}},
                    Case{"Sequences", 4, {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}},
                    Case{"Pipeline", 2, {"parallel.pp=2"}},
                    Case{"ZeroBubble", 2, {"parallel.pp=2", "schedule.pipeline.kind=zb_h1"}},
                    Case{"Zero1", 2, {"parallel.zero=1"}}, Case{"Zero2", 2, {"parallel.zero=2"}},
                    Case{"Zero3", 4, {"parallel.zero=3", "parallel.ep=2", "distributed.bucket_bytes=8192"}},
                    Case{"MemoryReuse",
                         2,
                         {"parallel.ep=2", "schedule.moe.memory_reuse=s2", "schedule.moe.chunk_by=tokens",
                          "schedule.moe.chunks=3"}},
                    Case{"Recomputation", 2, {"recompute=block"}},
                    Case{"SmallBuckets", 2, {"distributed.bucket_bytes=1"}}),
    [](const auto& i) { return i.param.name; });

TEST(Freeze, NewlyTrainedParametersStartWithZeroMoments) {
  const Scratch scratch;
  const Recipe recipe = frozen_recipe({"run.dir=" + scratch.path()});
  const FixedSource source = documents_of(recipe);
  TrainingRun first(recipe, self);
  for (int s = 0; s < steps; ++s) first.step(source);
  first.save();
  const std::string folder = scratch / "checkpoints/step-00000002";
  Recipe whole = recipe;
  whole.optim.freeze.clear();
  TrainingRun second(whole, self);
  second.load(folder);
  expect_bitwise(first.weights(), second.weights());
  const TensorMap before = first.states(), after = second.states();
  EXPECT_FALSE(before.contains("embedding.weight/moment1"));
  for (const double m : values_of(after.at("embedding.weight/moment1"))) ASSERT_EQ(m, 0);
  EXPECT_EQ(values_of(before.at("head.weight/moment1")), values_of(after.at("head.weight/moment1")));
  const auto checkpoint = io::Checkpoint::open(folder, io::Check::full);
  const std::vector<std::string> lines = cautions_of_resume(checkpoint, whole);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("the optimizer's states start at zero for embedding.weight and "), std::string::npos)
      << lines[0];
}

TEST(Freeze, NewlyFrozenParametersKeepTheSavedValues) {
  const Scratch scratch;
  Recipe recipe = frozen_recipe({"run.dir=" + scratch.path()});
  const FixedSource source = documents_of(recipe);
  const std::vector<std::string> patterns = recipe.optim.freeze;
  recipe.optim.freeze.clear();
  TrainingRun first(recipe, self);
  first.step(source);
  first.save();
  recipe.optim.freeze = patterns;
  TrainingRun second(recipe, self);
  second.load(scratch / "checkpoints/step-00000001");
  expect_bitwise(first.weights(), second.weights());
  second.step(source);
  EXPECT_EQ(values_of(first.weights().at("embedding.weight")), values_of(second.weights().at("embedding.weight")));
}

TEST(Freeze, Bf16WeightsAreSavedAndReadInAnotherLayout) {
  const Scratch scratch;
  const Recipe alone = frozen_recipe({"train.precision=bf16", "run.dir=" + scratch.path()});
  const FixedSource source = documents_of(alone);
  Recipe recipe = alone;
  recipe.parallel.ep = 2, recipe.parallel.zero = 3;
  TensorMap saved;
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    run.step(source);
    run.save();
    TensorMap all = run.states();
    if (world.rank() == 0) saved = std::move(all);
  });
  TrainingRun second(alone, self), unchanged(alone, self);
  second.load(scratch / "checkpoints/step-00000001");
  expect_bitwise(saved, second.states());
  const std::string name = "embedding.weight";
  EXPECT_EQ(values_of(unchanged.weights().at(name)), values_of(second.weights().at(name)));
  const auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000001", io::Check::full);
  EXPECT_EQ(checkpoint.record(name, io::Kind::main).dtype, Dtype::bf16);
  EXPECT_EQ(checkpoint.record("head.weight", io::Kind::main).dtype, Dtype::f32);
}

// Frozen parameters have no rests, and are saved in bf16. Trained parameters are saved as f32 main weights.
TEST(Freeze, RestsOfMainWeightsGiveBitwiseTheSameRunAndCheckpoint) {
  const auto recipe = [](const std::string& main_weights, const Scratch& scratch) {
    return frozen_recipe({"train.precision=bf16", "parallel.ep=2", "parallel.zero=1", "run.dir=" + scratch.path(),
                          "optim.main_weights=" + main_weights});
  };
  const auto digests = [](const Scratch& scratch) {
    std::map<std::string, std::string> of;
    const auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000002", io::Check::full);
    for (const auto& t : checkpoint.manifest().tensors)
      for (const auto& piece : t.pieces) of[cat(piece.stored, " ", t.dtype)] = piece.digest;
    return of;
  };
  const Scratch of_f32, of_rests;
  const Recipe plain = recipe("f32", of_f32), rests = recipe("rest", of_rests);
  const FixedSource source = documents_of(plain);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun a(plain, world), b(rests, world);
    expect_bitwise(trajectory(a, source, steps), trajectory(b, source, steps));
    a.save(), b.save();
    for (const auto& s : b.optimizer.states()) EXPECT_TRUE(s.parameter->trainable()) << s.parameter->name();
  });
  EXPECT_EQ(digests(of_f32), digests(of_rests));
  const auto saved = io::Checkpoint::open(of_rests / "checkpoints/step-00000002", io::Check::full);
  EXPECT_EQ(saved.record("embedding.weight", io::Kind::main).dtype, Dtype::bf16);
  EXPECT_EQ(saved.record("head.weight", io::Kind::main).dtype, Dtype::f32);
}

TEST(Freeze, NewlyTrainedRestsContinueAsF32MainWeights) {
  const Scratch scratch;
  const Recipe recipe = frozen_recipe({"train.precision=bf16", "optim.main_weights=rest", "run.dir=" + scratch.path()});
  const FixedSource source = documents_of(recipe);
  TrainingRun first(recipe, self);
  for (int s = 0; s < steps; ++s) first.step(source);
  first.save();
  Recipe whole = recipe;
  whole.optim.freeze.clear();
  Recipe plain = whole;
  plain.optim.main_weights = optim::MainWeights::f32;
  TrainingRun rests(whole, self), mains(plain, self);
  for (TrainingRun* run : {&rests, &mains}) run->load(scratch / "checkpoints/step-00000002");
  expect_bitwise(mains.states(), rests.states());
  expect_bitwise(trajectory(mains, source, steps), trajectory(rests, source, steps));
}

TEST(Freeze, PatternsWithoutMatchAreRefusedWithTheNearestNames) {
  const std::string text =
      message_of(ExitCode::usage, [] { small_recipe({"optim.freeze=[embeding.weight, layers.7.*]"}); });
  EXPECT_NE(text.find("has the pattern 'embeding.weight', which matches no parameter; nearest: embedding.weight"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("has the pattern 'layers.7.*'"), std::string::npos) << text;
}

TEST(Freeze, FreezingAllParametersIsRefused) {
  const std::string text = message_of(ExitCode::usage, [] { small_recipe({"optim.freeze=[\"*\"]"}); });
  EXPECT_NE(text.find("freezes all parameters"), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::tests
