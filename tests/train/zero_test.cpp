// ZeRO changes the contents of a rank's memory, but changes the results at most by rounding.
#include <gtest/gtest.h>

#include <chrono>

#include "layers/model_size.h"
#include "parallel/comm/text_collectives.h"
#include "parallel/comm/thread_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/papers/monta.h"
#include "tools/train/model/evaluation.h"

namespace hexad::tests {

using device::Category;
using namespace base;
using namespace layers;
using namespace train;
using namespace verify;

namespace {

using namespace plan;

constexpr int steps = 3;
constexpr int64_t levels[] = {1, 2, 3};
constexpr double rounding_of_f64 = 1e-10;  // from the project's definition of layout invariance

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
  int dp = ranks;  // number of ranks with different micro-batches
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Returns the recipe of a case, by default with buckets of 8 KiB. The gradient norm is clipped.
Recipe recipe_for(const Case& c, int64_t zero, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"distributed.bucket_bytes=8192", "optim.clip=0.1", cat("parallel.zero=", zero)};
  all.insert(all.end(), c.overrides.begin(), c.overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

// Trains three steps on the ranks of the case. Returns the trajectory on rank 0.
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

// The levels sum over ranks by different operations. All of these operations sum in rank order.
TEST_P(Zero, EveryLevelEqualsLevel0BitwiseWithOneMicroBatch) {
  const std::string one = cat("batch.global=", 2 * GetParam().dp);
  const Trajectory whole = run_under(GetParam(), 0, {one});
  for (const int64_t level : levels) {
    SCOPED_TRACE(cat("zero ", level));
    expect_bitwise(whole, run_under(GetParam(), level, {one}));
  }
}

// Expects bitwise equality of levels 0 and 1, and of levels 2 and 3. In f64, expects the two pairs to agree up to
// rounding. Only levels 2 and 3 sum over ranks first, and then over micro-batches.
void expect_equal_levels(const Case& c, int64_t micro_batches) {
  const std::string global = cat("batch.global=", 2 * micro_batches * c.dp);
  const Trajectory level0 = run_under(c, 0, {global}), level2 = run_under(c, 2, {global});
  expect_bitwise(level0, run_under(c, 1, {global}));
  expect_bitwise(level2, run_under(c, 3, {global}));
  if (recipe_for(c, 0).train.precision == Precision::f64) expect_close(level0, level2, rounding_of_f64);
}

TEST_P(Zero, Levels0And1AndLevels2And3AreBitwiseEqualWithSeveralMicroBatches) { expect_equal_levels(GetParam(), 3); }

INSTANTIATE_TEST_SUITE_P(
    , Zero,
    testing::Values(
        Case{"Two", 2, {}}, Case{"Three", 3, {}}, Case{"Four", 4, {}}, Case{"ExpertsOverTwo", 2, {"parallel.ep=2"}},
        Case{"ExpertsOverTwoOfFour", 4, {"parallel.ep=2"}}, Case{"F32", 4, {"parallel.ep=2", "train.precision=f32"}},
        Case{"Bf16", 4, {"parallel.ep=2", "train.precision=bf16"}},
        Case{"Bf16Gradients", 4, {"parallel.ep=2", "train.precision=bf16", "optim.grad_dtype=bf16"}},
        Case{"Muon", 4, {"parallel.ep=2", "optim.name=muon", "optim.lr=0.001"}},
        Case{"MuonOfCutExperts", 4, {"parallel.tp=2", "parallel.etp=2", "optim.name=muon", "optim.lr=0.001"}, 2},
        Case{"MuonOfSomeLayers", 2, {"optim.name=muon", "optim.lr=0.001", "optim.freeze=[layers.0.*]"}},
        Case{"MuonOffloaded", 3, {"optim.name=muon", "optim.lr=0.001", "offload.optimizer=file"}},
        Case{"Bf16Moments", 4, {"parallel.ep=2", "train.precision=bf16", "optim.moment_dtype=bf16"}},
        Case{"Rests", 4, {"parallel.ep=2", "train.precision=bf16", "optim.main_weights=rest"}},
        Case{"Bf16MomentsOfCutExperts",
             4,
             {"parallel.etp=2", "parallel.ep=2", "train.precision=bf16", "optim.moment_dtype=bf16",
              "model.moe.expert_hidden=7"}},
        Case{"Sgd", 2, {"optim.name=sgd", "train.precision=bf16"}}, Case{"Tied", 2, {"model.tied_embedding=true"}},
        Case{"PredictionBlocks", 2, {"model.prediction_blocks=2"}}, Case{"Blocks", 2, {"recompute=block"}},
        Case{"Norms", 2, {"recompute=norms"}}, Case{"Biases", 3, {"model.bias=true", "model.norm=layer_norm"}},
        Case{"Tensors", 4, {"parallel.tp=2"}, 2},
        Case{"Sequences", 4, {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}, 2},
        Case{"NormOverAllHeadsAndGatedSharedExperts",
             4,
             {"parallel.tp=2", "model.qk_norm=all_heads", "model.moe.shared_experts=1", "model.moe.shared_gate=true",
              "distributed.bucket_bytes=1"},
             2},
        Case{"SharedHeads", 4, {"parallel.tp=4", "parallel.sp=true", "parallel.etp=1"}, 1},
        Case{"NormOverSharedHeads",
             4,
             {"parallel.tp=4", "parallel.sp=true", "parallel.etp=1", "model.qk_norm=all_heads", "model.qkv_bias=true"},
             1},
        Case{"Contexts", 4, {"parallel.cp=2", "parallel.ep=2"}, 2},
        Case{"ExpertTensors", 4, {"parallel.etp=2", "model.bias=true", "model.moe.expert_hidden=7"}},
        Case{"OneUnit", 2, {"distributed.bucket_bytes=100000000"}},
        Case{"AUnitForEveryParameter", 2, {"distributed.bucket_bytes=1"}}),
    [](const auto& i) { return i.param.name; });

class ZeroPipelines : public testing::TestWithParam<Case> {};

TEST_P(ZeroPipelines, Levels0And1AndLevels2And3AreBitwiseEqual) { expect_equal_levels(GetParam(), 4); }

INSTANTIATE_TEST_SUITE_P(, ZeroPipelines,
                         testing::Values(Case{"OneForwardOneBackward", 4, {"parallel.pp=2"}, 2},
                                         Case{"TiedStages", 4, {"parallel.pp=2", "model.tied_embedding=true"}, 2},
                                         Case{"PredictingStages", 4, {"parallel.pp=2", "model.prediction_blocks=1"}, 2},
                                         Case{"Interleaved",
                                              4,
                                              {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=interleaved",
                                               "schedule.pipeline.virtual_stages=2"},
                                              2},
                                         Case{"ZeroBubble", 4, {"parallel.pp=2", "schedule.pipeline.kind=zb_h1"}, 2},
                                         Case{"DualPipe",
                                              4,
                                              {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=dualpipe_v",
                                               "model.tied_embedding=true"},
                                              2}),
                         [](const auto& i) { return i.param.name; });

TEST(ZeroLevels, EveryLevelMatchesTrainingOnOneRank) {
  const Case c{"", 4, {"parallel.ep=2", "batch.global=16"}};
  const Recipe alone = recipe_for({"", 1, {"batch.global=16"}}, 0);
  const Trajectory one = one_rank_trajectory(alone, documents_of(alone), steps);
  for (const int64_t level : {0, 1, 2, 3}) {
    SCOPED_TRACE(cat("zero ", level));
    expect_close(one, run_under(c, level), rounding_of_f64);
  }
}

// In a run of `hexad train`, a step begins while the weights of the previous step are gathered.
TEST(ZeroLevels, StepsThatBeginDuringGathersEqualStepsAfterThemBitwise) {
  const std::vector<Case> cases{{"", 2, {"batch.global=8"}},
                                {"", 4, {"parallel.ep=2", "batch.global=16"}},
                                {"", 4, {"parallel.tp=2", "parallel.sp=true", "batch.global=8"}},
                                {"", 4, {"parallel.pp=2", "model.tied_embedding=true", "batch.global=16"}}};
  for (const Case& c : cases)
    for (const int64_t level : levels)
      for (const uint64_t seed : {1, 2}) {
        SCOPED_TRACE(cat("zero ", level, ", ", c.overrides.front(), ", seed ", seed));
        comm::with_ranks(
            c.ranks,
            [&](const comm::ProcessGroup& world) {
              const Recipe recipe = recipe_for(c, level);
              const FixedSource source = documents_of(recipe);
              TrainingRun after(recipe, world), ahead(recipe, world);
              for (int s = 0; s < steps; ++s) EXPECT_EQ(after.step(source).loss, ahead.step_ahead(source).loss);
              expect_bitwise(after.weights(), ahead.weights());
              ahead.instance.weights.complete(ahead.instance.context.compute());
            },
            {.jitter = {.seed = seed, .max_delay = std::chrono::microseconds(300)}, .watchdog_seconds = 60});
      }
}

TEST(ZeroLevels, RanksWithoutTargetsJoin) {
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

// Compares the allocator's counts with the prediction of Rajbhandari et al. 2020: on four ranks, divided memory falls
// to 1/4, with pieces rounded up.
TEST(ZeroLevels, MemoryDecreasesAsPredicted) {
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

TEST(GradientDtype, Bf16GradientsOfOneMicroBatchEqualRoundedF32Gradients) {
  const Case c{"", 1, {"train.precision=bf16", "batch.global=2"}};
  const Trajectory exact = run_under(c, 0), rounded = run_under(c, 0, {"optim.grad_dtype=bf16"});
  const TensorMap& gradients = exact.steps[0].gradients;
  ASSERT_EQ(rounded.steps[0].gradients.size(), gradients.size());
  ASSERT_FALSE(gradients.empty());
  for (const auto& [name, tensor] : rounded.steps[0].gradients) {
    const bool router = name.find("router") != std::string::npos;  // its weights are f32
    EXPECT_EQ(tensor.dtype(), router ? Dtype::f32 : Dtype::bf16) << name;
    const auto got = values_of(tensor), want = values_of(gradients.at(name));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], router ? want[i] : static_cast<double>(bf16(static_cast<float>(want[i])))) << name << " " << i;
  }
}

// The product writes its contribution directly to the bf16 gradients. There is no f32 buffer of the experts' size.
TEST(GradientDtype, Bf16GradientsOfProductsAreNeverF32) {
  using device::Category;
  const Case c{
      "", 1, {"train.precision=bf16", "optim.grad_dtype=bf16", "model.vocab=64", "model.moe.expert_hidden=512"}};
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_for(c, 0), world);
    const FixedSource source = documents_of(run.recipe);
    run.step(source);
    int64_t experts = 0, others = 0;
    for (const auto& p : run.instance.parameters) {
      int64_t& most = p->name().find("experts") == std::string::npos ? others : experts;
      most = std::max(most, p->shape().numel() * size_of(Dtype::f32));
    }
    ASSERT_GT(experts, 2 * others);
    EXPECT_LT(run.instance.context.allocator()->stats().peak_in(Category::communication), experts);
  });
}

// Checks MoNTA's 16 bytes per parameter, and the bytes that remain under ZeRO. Routers are always in f32, and also take
// 16 bytes.
TEST(GradientDtype, Bf16GradientsGiveMontasTable3) {
  using device::Category;
  const Case c{"",
               4,
               {"train.precision=bf16", "optim.grad_dtype=bf16", "parallel.ep=2", "model.hidden=128", "model.vocab=256",
                "model.moe.expert_hidden=128", "batch.global=8", "distributed.bucket_bytes=1000000"}};
  for (const int64_t level : {0, 1, 2, 3})
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe_for(c, level), world);
      run.step(documents_of(run.recipe));
      const auto memory = run.instance.context.allocator()->stats();
      const auto size = parameter_counts(run.recipe.model, Registry());
      const double counted =
          static_cast<double>(memory.used_in(Category::parameter) + memory.used_in(Category::gradient) +
                              memory.used_in(Category::optimizer));
      const auto predicted = plan::monta::state_bytes(static_cast<double>(size.parameters - size.expert_parameters),
                                                      static_cast<double>(size.expert_parameters),
                                                      {.e = 2, .d = 4, .d_experts = 2}, level);
      EXPECT_NEAR(counted / (predicted.non_moe + predicted.moe), 1, 0.01) << "zero " << level;
    });
}

TEST(OptimizerOffload, MovesStatesWithoutChangingABit) {
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
    const Scratch scratch;  // the first rank's folder is used
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

// The contents of a checkpoint do not depend on which rank owns a state, such as the moments of an expert.
TEST(ZeroCheckpoints, LevelsAndLayoutsLoadCheckpointsOfEachOther) {
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
        run.step(documents_of(run.recipe));  // loaded weights replace the weights of another step
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

TEST(ZeroCheckpoints, ResumedRunEqualsUninterruptedRunBitwise) {
  for (const int64_t level : levels)
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      const Recipe recipe = recipe_for({"", 2, {"train.precision=bf16"}}, level);
      expect_resumed_bitwise(recipe, recipe, world);
    });
}

}  // namespace
}  // namespace hexad::tests
