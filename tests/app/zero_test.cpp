// ZeRO changes what lies in a rank's memory, not what is computed.
#include <gtest/gtest.h>

#include "tests/training/scratch.h"
#include "tests/training/training.h"
#include "tools/hexad/evaluation.h"

namespace hexad::tests {
namespace {

constexpr int steps = 3;
constexpr int64_t levels[] = {1, 2, 3};

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Several units; a norm that is clipped.
Recipe recipe_for(const Case& c, int64_t zero, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"distributed.bucket_bytes=8192", "optim.clip=0.1", cat("parallel.zero=", zero)};
  all.insert(all.end(), c.overrides.begin(), c.overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

// On rank 0, from all ranks.
Trajectory run_under(const Case& c, int64_t zero, const std::vector<std::string>& more = {}) {
  const Recipe recipe = recipe_for(c, zero, more);
  const FixedSource source = documents_of(recipe);
  Trajectory result;
  on_ranks(c.ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Trajectory t = trajectory(run, source, steps);
    if (world.rank() == 0) result = std::move(t);
  });
  return result;
}

class Zero : public testing::TestWithParam<Case> {};

// Sums over ranks are in rank order however they are computed, and nothing else differs.
TEST_P(Zero, WithOneMicroBatchEveryLevelHasTheBitsOfLevel0) {
  const std::string one = cat("batch.global=", 2 * GetParam().ranks);
  const Trajectory whole = run_under(GetParam(), 0, {one});
  for (const int64_t level : levels) {
    SCOPED_TRACE(cat("zero ", level));
    expect_bitwise(whole, run_under(GetParam(), level, {one}));
  }
}

// Levels 2 and 3 sum over ranks first, then over micro-batches.
TEST_P(Zero, WithSeveralMicroBatchesLevel1HasTheBitsOfLevel0AndLevel3ThoseOfLevel2) {
  const std::string three = cat("batch.global=", 6 * GetParam().ranks);
  expect_bitwise(run_under(GetParam(), 0, {three}), run_under(GetParam(), 1, {three}));
  expect_bitwise(run_under(GetParam(), 2, {three}), run_under(GetParam(), 3, {three}));
}

INSTANTIATE_TEST_SUITE_P(, Zero,
                         testing::Values(Case{"Two", 2, {}}, Case{"Three", 3, {}}, Case{"Four", 4, {}},
                                         Case{"ExpertsOverTwo", 2, {"parallel.ep=2"}},
                                         Case{"ExpertsOverTwoOfFour", 4, {"parallel.ep=2"}},
                                         Case{"F32", 4, {"parallel.ep=2", "train.precision=f32"}},
                                         Case{"Bf16", 4, {"parallel.ep=2", "train.precision=bf16"}},
                                         Case{"Sgd", 2, {"optim.kind=sgd", "train.precision=bf16"}},
                                         Case{"Tied", 2, {"model.tied_embedding=true"}},
                                         Case{"Blocks", 2, {"recompute=block"}}, Case{"Norms", 2, {"recompute=norms"}},
                                         Case{"Biases", 3, {"model.bias=true", "model.norm=layer_norm"}},
                                         Case{"OneUnit", 2, {"distributed.bucket_bytes=100000000"}},
                                         Case{"AUnitForEveryParameter", 2, {"distributed.bucket_bytes=1"}}),
                         [](const auto& i) { return i.param.name; });

TEST(ZeroLevels, EveryOneIsTheTrainingRunOfOneRank) {
  const Case c{"", 4, {"parallel.ep=2", "batch.global=16"}};
  const Recipe alone = recipe_for({"", 1, {"batch.global=16"}}, 0);
  const Trajectory one = trajectory_alone(alone, documents_of(alone), steps);
  for (const int64_t level : {0, 1, 2, 3}) {
    SCOPED_TRACE(cat("zero ", level));
    expect_close(one, run_under(c, level), 1e-10);
  }
}

TEST(ZeroLevels, C2_RanksWithoutTargetsJoin) {
  const Case c{"", 2, {"batch.global=4"}};
  const Recipe recipe = recipe_for(c, 0);
  data::Batch batch = documents_of(recipe).batch(0, 4);
  std::fill_n(batch.targets.begin(), batch.targets.size() / 2, data::ignored);
  const FixedSource source(batch);
  std::map<int64_t, Trajectory> results;
  for (const int64_t level : {0, 1, 2, 3})
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe_for(c, level), world);
      Trajectory t = trajectory(run, source, steps);
      if (world.rank() == 0) results[level] = std::move(t);
    });
  for (const int64_t level : levels) expect_bitwise(results[0], results[level]);
}

TEST(ZeroLevels, EvaluationBetweenStepsChangesNothing) {
  for (const int64_t level : {1, 3})
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      const Recipe recipe = recipe_for({"", 2, {}}, level);
      const FixedSource source = documents_of(recipe);
      TrainingRun plain(recipe, world), evaluated(recipe, world);
      for (int s = 0; s < steps; ++s) {
        plain.step(source);
        evaluated.step(source);
        evaluate(evaluated.instance, recipe, source, 8, {});
      }
      expect_bitwise(plain.weights(), evaluated.weights());
    });
}

// What Rajbhandari et al. 2020 promise, on the allocator's account: 1/4 on four ranks, and pieces are rounded up.
TEST(ZeroLevels, MemoryFallsAsPredicted) {
  using device::Category;
  const Case c{"", 4, {"train.precision=bf16", "model.hidden=64", "model.moe.expert_hidden=128", "batch.global=8"}};
  std::map<int64_t, device::MemoryStats> stats;
  for (const int64_t level : {0, 1, 2, 3})
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe_for(c, level, {"distributed.bucket_bytes=200000"}), world);
      const FixedSource source = documents_of(run.recipe);
      run.step(source);
      run.instance.context.allocator()->reset_peaks();
      run.step(source);
      if (world.rank() == 0) stats[level] = run.instance.context.allocator()->stats();
    });
  const auto share = [&](int64_t level, Category category) {
    return static_cast<double>(stats[level].peak_in(category)) / static_cast<double>(stats[0].peak_in(category));
  };
  constexpr double rounding = 0.01;
  EXPECT_NEAR(share(1, Category::optimizer), 0.25, rounding);
  EXPECT_NEAR(share(1, Category::gradient), 1, rounding);
  EXPECT_NEAR(share(2, Category::optimizer), 0.25, rounding);
  EXPECT_NEAR(share(2, Category::gradient), 0.25, rounding);
  EXPECT_NEAR(share(2, Category::parameter), 1, rounding);
  EXPECT_NEAR(share(3, Category::optimizer), 0.25, rounding);
  EXPECT_NEAR(share(3, Category::gradient), 0.25, rounding);
  EXPECT_NEAR(share(3, Category::parameter), 0.25, rounding);
}

TEST(OptimizerOffload, ChangesWhereStatesLieAndNoBit) {
  using device::Category;
  for (const char* precision : {"f32", "bf16"})
    for (const int64_t level : {0, 2}) {
      const Case c{"", 2, {cat("train.precision=", precision)}};
      expect_bitwise(run_under(c, level), run_under(c, level, {"offload.optimizer=file"}));
    }
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun kept(recipe_for({"", 2, {"train.precision=bf16"}}, 1), world);
    TrainingRun away(recipe_for({"", 2, {"train.precision=bf16", "offload.optimizer=file"}}, 1), world);
    for (TrainingRun* run : {&kept, &away}) run->step(documents_of(run->recipe));
    EXPECT_EQ(away.instance.context.allocator()->stats().used_in(Category::optimizer), 0);
    EXPECT_EQ(away.instance.context.offload_allocator()->stats().used_in(Category::offload),
              kept.instance.context.allocator()->stats().used_in(Category::optimizer));
  });
}

TEST(OptimizerOffload, StatesInAFileAreSavedAndLoaded) {
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const Scratch scratch;  // the first rank's is used
    device::DeviceContext context;
    const std::string folder = broadcast_text(scratch.path(), 0, world, context);
    Recipe away = recipe_for({"", 2, {"offload.optimizer=file"}}, 1), kept = recipe_for({"", 2, {}}, 0);
    away.run.dir = kept.run.dir = folder;
    TrainingRun saved(away, world), loaded(kept, world), again(away, world);
    saved.step(documents_of(away));
    saved.save();
    loaded.load(folder + "/checkpoints/step-00000001");
    again.load(folder + "/checkpoints/step-00000001");
    expect_bitwise(saved.states(), loaded.states());
    expect_bitwise(saved.states(), again.states());
  });
}

// K1: nothing that a checkpoint holds depends on who owned it, also not an expert's moments.
TEST(ZeroCheckpoints, K1_AnyLevelAndLayoutLoadsWhatAnyOtherSaved) {
  struct Layout {
    int ranks, ep;
    int64_t zero;
  };
  const Layout layouts[] = {{1, 1, 0}, {2, 1, 1}, {2, 2, 2}, {3, 1, 3}, {4, 2, 3}, {4, 1, 2}, {4, 2, 1}};
  const auto recipe_in = [&](const Scratch& scratch, const Layout& l) {
    Recipe r =
        recipe_for({"", l.ranks, {"batch.global=24", "model.moe.bias_rate=0.05"}}, l.zero, {cat("parallel.ep=", l.ep)});
    r.run.dir = scratch.path();
    return r;
  };
  for (const Layout& from : layouts) {
    const Scratch scratch;
    TensorMap saved;
    on_ranks(from.ranks, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe_in(scratch, from), world);
      for (int s = 0; s < steps; ++s) run.step(documents_of(run.recipe));
      run.save();
      TensorMap all = run.states();
      if (world.rank() == 0) saved = std::move(all);
    });
    for (const Layout& to : layouts) {
      SCOPED_TRACE(cat(from.ranks, " ranks ep ", from.ep, " zero ", from.zero, " -> ", to.ranks, " ranks ep ", to.ep,
                       " zero ", to.zero));
      on_ranks(to.ranks, [&](const comm::ProcessGroup& world) {
        TrainingRun run(recipe_in(scratch, to), world);
        run.step(documents_of(run.recipe));  // what is loaded replaces what another step left
        run.load(scratch / "checkpoints/step-00000003");
        expect_bitwise(saved, run.states());
        for (const auto& [name, w] : run.weights()) {
          SCOPED_TRACE(name);
          expect_bitwise(saved.at(name + "/main"), w, Zeros::expected);
        }
      });
    }
  }
}

TEST(ZeroCheckpoints, ARunThatWasSavedAndResumedHasTheBitsOfAnUninterruptedOne) {
  for (const int64_t level : levels)
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      const Scratch scratch;  // the first rank's is used
      device::DeviceContext context;
      const std::string folder = broadcast_text(scratch.path(), 0, world, context);
      Recipe recipe = recipe_for({"", 2, {"train.precision=bf16"}}, level);
      recipe.run.dir = folder;
      const FixedSource source = documents_of(recipe);
      TrainingRun whole(recipe, world), first(recipe, world), second(recipe, world);
      for (int s = 0; s < 4; ++s) whole.step(source);
      for (int s = 0; s < 2; ++s) first.step(source);
      first.save();
      second.load(folder + "/checkpoints/step-00000002");
      for (int s = 0; s < 2; ++s) second.step(source);
      expect_bitwise(whole.states(), second.states());
      expect_bitwise(whole.weights(), second.weights());
    });
}

}  // namespace
}  // namespace hexad::tests
