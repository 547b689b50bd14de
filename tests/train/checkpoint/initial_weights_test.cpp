// A run may start from a model with a dense MLP, fewer experts or a smaller vocabulary.
#include "tools/train/checkpoint/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;
constexpr double rounding_of_f64 = 1e-9;

using Keys = std::vector<std::string>;
Keys operator+(Keys a, const Keys& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Keys dense{"model.moe.experts=0", "model.mlp_hidden=12"};
const Keys start{"train.init_from=somewhere", "train.seed=8"};  // init_from() gets the real folder

// Trains a model for two steps, so that no bias is zero, and saves it. Returns the checkpoint's folder.
std::string save(const Scratch& scratch, const Keys& keys) {
  const Recipe recipe = small_recipe(keys + Keys{"run.dir=" + scratch.path()});
  const FixedSource source = documents_of(recipe);
  TrainingRun run(recipe, self);
  for (int s = 0; s < 2; ++s) run.step(source);
  run.save();
  return scratch / "checkpoints/step-00000002";
}

double first_loss(const Recipe& recipe, const std::string& folder) {
  const FixedSource source = documents_of(recipe);
  TrainingRun run(recipe, self);
  run.init_from(folder);
  return run.step(source).loss;
}

// Starts a run with `start` and `keys` from `folder`, which must fail with exit code `code`. Returns the error message.
std::string refusal(ExitCode code, const std::string& folder, const Keys& keys) {
  TrainingRun run(small_recipe(start + keys), self);
  return message_of(code, [&] { run.init_from(folder); });
}

struct Case {
  std::string name;
  Keys before, after;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class FirstLoss : public testing::TestWithParam<Case> {};

TEST_P(FirstLoss, EqualsTheLossOfTheModelBefore) {
  const Scratch scratch;
  const std::string folder = save(scratch, GetParam().before);
  const double before = first_loss(small_recipe(GetParam().before), folder);
  const double after = first_loss(small_recipe(start + GetParam().after), folder);
  EXPECT_NEAR(after, before, rounding_of_f64 * before);
}

const Keys copy{"train.init_experts=copy"}, split{"train.init_experts=split"};
INSTANTIATE_TEST_SUITE_P(
    , FirstLoss,
    testing::Values(Case{"Copies", dense, copy}, Case{"CopiesWithScale", dense, copy + Keys{"model.moe.scale=2.5"}},
                    Case{"CopiesBySigmoid", dense, copy + Keys{"model.moe.score=sigmoid"}},
                    Case{"CopiesInSomeBlocks", dense, copy + Keys{"model.moe.dense_layers=1", "model.mlp_hidden=12"}},
                    Case{"CopiesOfGeluWithBiases", dense + Keys{"model.mlp=gelu", "model.bias=true"},
                         copy + Keys{"model.moe.expert=gelu", "model.bias=true", "model.moe.scale=1.5"}},
                    Case{"CopiesWithBiases", dense + Keys{"model.bias=true"}, copy + Keys{"model.bias=true"}},
                    Case{"OneGroupOfThree", dense,
                         split + Keys{"model.moe.expert_hidden=4", "model.moe.experts=6", "model.moe.top_k=3"}},
                    Case{"TwoGroupsOfThreeWithBiases", dense + Keys{"model.bias=true"},
                         split + Keys{"model.moe.expert_hidden=4", "model.moe.experts=12", "model.moe.top_k=6",
                                      "model.moe.scale=1.5", "model.bias=true"}},
                    Case{"GroupsOfGeluWithBiases", dense + Keys{"model.mlp=gelu", "model.bias=true"},
                         split + Keys{"model.moe.expert_hidden=6", "model.moe.experts=8", "model.moe.top_k=4",
                                      "model.moe.expert=gelu", "model.bias=true"}},
                    Case{"TwiceTheExperts", {}, copy + Keys{"model.moe.experts=8", "model.moe.top_k=4"}},
                    Case{"TwiceTheExpertsWithSelectionBias",
                         {"model.moe.bias_rate=0.05"},
                         copy + Keys{"model.moe.bias_rate=0.05", "model.moe.experts=8", "model.moe.top_k=4"}}),
    [](const auto& i) { return i.param.name; });

// Starts a run with `keys` from `folder` under a layout. Returns the whole weights.
TensorMap start_under(const Keys& keys, const std::string& folder, int ranks, const Keys& layout) {
  TensorMap weights;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(small_recipe(start + keys + layout), world);
    run.init_from(folder);
    TensorMap all = run.weights();
    if (world.rank() == 0) weights = std::move(all);
  });
  return weights;
}

TEST(InitialWeights, DoNotDependOnTheLayout) {
  const Scratch dense_run, moe_run;
  const std::string from_dense = save(dense_run, dense), from_moe = save(moe_run, {});
  const Keys noise{"train.init_noise=0.1"};
  const std::pair<std::string, Keys> starts[] = {
      {from_dense, copy + noise + Keys{"train.init_vocabulary=grow", "model.vocab=40"}},
      {from_dense, split + noise +
                       Keys{"model.moe.expert_hidden=4", "model.moe.experts=12", "model.moe.top_k=3",
                            "train.init_vocabulary=mean", "model.vocab=40"}},
      {from_moe, copy + noise + Keys{"model.moe.experts=8"}},
  };
  for (const auto& [folder, keys] : starts) {
    SCOPED_TRACE(keys[0]);
    const TensorMap one = start_under(keys, folder, 1, {});
    expect_bitwise(one, start_under(keys, folder, 2, {"parallel.pp=2"}));
    expect_bitwise(one, start_under(keys, folder, 4, {"parallel.tp=2", "parallel.ep=2", "parallel.etp=2"}));
    expect_bitwise(one,
                   start_under(keys, folder, 4, {"parallel.ep=2", "parallel.zero=3", "distributed.bucket_bytes=1"}));
  }
}

// The checkpoint has no routers and no rows for the new ids. Therefore, routers and new rows keep the values that were
// drawn for them.
TEST(InitialWeights, AreBitwiseTheSameWithRestsOfMainWeights) {
  const Scratch scratch;
  const std::string folder = save(scratch, dense);
  const Keys keys =
      start + copy +
      Keys{"train.init_noise=0.1", "train.init_vocabulary=grow", "model.vocab=40", "train.precision=bf16"};
  const auto states = [&](const char* main_weights, int zero) {
    TensorMap result;
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(small_recipe(keys + Keys{cat("optim.main_weights=", main_weights), cat("parallel.zero=", zero)}),
                      world);
      run.init_from(folder);
      TensorMap all = run.states();
      if (world.rank() == 0) result = std::move(all);
    });
    return result;
  };
  const TensorMap exact = states("f32", 0);
  expect_bitwise(exact, states("rest", 0));
  expect_bitwise(exact, states("rest", 1));
  expect_bitwise(exact, states("rest", 3));
}

// Returns the number of reads of stored tensors at the start of a run with `keys` from `folder`.
int reads_at_start(const std::string& folder, const Keys& keys) {
  int reads = 0;
  const FileWork work;
  auto checkpoint = io::Checkpoint::open(folder, io::Check::full, work);
  TrainingRun run(small_recipe(start + keys), self);
  work.on_move([&](uint64_t) { ++reads; });
  InitialWeights(checkpoint, run.recipe).load(run.instance, run.optimizer);
  return reads;
}

TEST(InitialWeights, ReadNoStoredDataTwice) {
  constexpr int layers = 2, divided = 3;  // gate_up.weight, gate_up.bias and down.weight; down.bias is not divided
  const Scratch dense_run, moe_run;
  const std::string from_dense = save(dense_run, dense + Keys{"model.bias=true"}), from_moe = save(moe_run, {});
  const Keys three_parts{"model.moe.expert_hidden=4", "model.moe.experts=6", "model.moe.top_k=3", "model.bias=true"};
  EXPECT_EQ(reads_at_start(from_dense, split + three_parts),
            reads_at_start(from_dense, copy + Keys{"model.bias=true"}) + layers * divided * (3 - 1));
  constexpr int stored = 4, by_expert = 3;  // number of stored experts; gate_up.weight, down.weight and router.weight
  EXPECT_EQ(reads_at_start(from_moe, copy + Keys{"model.moe.experts=8", "model.moe.top_k=4"}),
            reads_at_start(from_moe, {}) + layers * by_expert * (stored - 1));
}

TEST(InitialWeights, NoiseIsRelativeAndDiffersBetweenExperts) {
  const Scratch scratch;
  const std::string folder = save(scratch, dense), name = "layers.1.moe.experts.down.weight";
  const auto exact = values_of(start_under(copy, folder, 1, {}).at(name)),
             noisy = values_of(start_under(copy + Keys{"train.init_noise=0.01"}, folder, 1, {}).at(name));
  ASSERT_EQ(exact.size(), noisy.size());
  const size_t expert = exact.size() / 4;
  double squares = 0;
  int equal = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(exact[i], exact[i % expert]);
    squares += std::pow(noisy[i] / exact[i] - 1, 2);
    equal += i >= expert && noisy[i] == noisy[i % expert];
  }
  EXPECT_LT(equal, static_cast<int>(exact.size() / 100));
  const double deviation = std::sqrt(squares / static_cast<double>(exact.size()));
  EXPECT_GT(deviation, 0.008);
  EXPECT_LT(deviation, 0.012);
}

TEST(InitialWeights, RouterIsDrawnAsForANewModel) {
  const Scratch scratch;
  const std::string folder = save(scratch, dense), name = "layers.0.moe.router.weight";
  const TrainingRun fresh(small_recipe(start), self);
  EXPECT_EQ(values_of(start_under(copy, folder, 1, {}).at(name)), values_of(fresh.weights().at(name)));
}

TEST(InitialWeights, ExpertsOfAGroupHaveOneRouterRow) {
  const Scratch scratch;
  const std::string folder = save(scratch, dense);
  const auto rows = values_of(
      start_under(split + Keys{"model.moe.expert_hidden=4", "model.moe.experts=6", "model.moe.top_k=3"}, folder, 1, {})
          .at("layers.0.moe.router.weight"));
  constexpr size_t hidden = 16;
  const auto row = [&](size_t r) {
    return std::vector<double>(rows.begin() + static_cast<std::ptrdiff_t>(r * hidden),
                               rows.begin() + static_cast<std::ptrdiff_t>((r + 1) * hidden));
  };
  EXPECT_EQ(row(0), row(2));
  EXPECT_EQ(row(3), row(5));
  EXPECT_NE(row(2), row(3));
}

TEST(InitialWeights, VocabularyGrowsByInitialOrByMeanRows) {
  const Scratch scratch;
  const std::string folder = save(scratch, {"model.head_bias=true"});
  constexpr size_t stored = 31;
  const Keys larger{"model.vocab=40", "model.head_bias=true"};
  const TrainingRun fresh(small_recipe(start + larger), self);
  const auto grown = start_under(larger + Keys{"train.init_vocabulary=grow"}, folder, 1, {}),
             mean = start_under(larger + Keys{"train.init_vocabulary=mean"}, folder, 1, {});
  auto checkpoint = io::Checkpoint::open(folder, io::Check::full);
  for (const std::string name : {"embedding.weight", "head.weight", "head.bias"}) {
    SCOPED_TRACE(name);
    const size_t hidden = name == "head.bias" ? 1 : 16;
    const auto before = values_of(checkpoint.read(name, io::Kind::main, fresh.instance.parameters.device().host())),
               drawn = values_of(fresh.weights().at(name)), a = values_of(grown.at(name)), b = values_of(mean.at(name));
    ASSERT_EQ(a.size(), 40 * hidden);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i], i < stored * hidden ? before[i] : drawn[i]);
      double sum = 0;
      for (size_t r = 0; r < stored; ++r) sum += before[r * hidden + i % hidden];
      EXPECT_NEAR(b[i], i < stored * hidden ? before[i] : sum / static_cast<double>(stored), 1e-14);
    }
  }
}

TEST(InitialWeights, OtherShapesAreRefusedWithTheKeyThatAllowsThem) {
  const Scratch dense_run, moe_run;
  const std::string from_dense = save(dense_run, dense), from_moe = save(moe_run, {});
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal(ExitCode::data, from_dense, {}),
         "set train.init_experts to copy or split to build experts from the MLP");
  expect(refusal(ExitCode::usage, from_dense, copy + Keys{"model.moe.expert_hidden=8"}),
         "model.moe.expert_hidden (8) must be 12, the width of layers.0.mlp");
  expect(refusal(ExitCode::usage, from_dense, split + Keys{"model.moe.expert_hidden=8"}),
         "model.moe.expert_hidden (8) must divide 12");
  const std::string top_k =
      refusal(ExitCode::usage, from_dense, split + Keys{"model.moe.expert_hidden=4", "model.moe.experts=6"});
  expect(top_k, "model.moe.top_k (2) must be a multiple of the 3 experts that form a dense MLP for train.init_experts");
  EXPECT_TRUE(top_k.ends_with("; nearest: 3")) << top_k;
  expect(refusal(ExitCode::usage, from_dense, copy + Keys{"model.moe.normalize=false"}),
         "model.moe.normalize (false) must be true");
  expect(refusal(ExitCode::usage, from_moe, {"model.moe.experts=8"}),
         "to copy the stored experts to the new ones, set train.init_experts: copy");
  expect(refusal(ExitCode::usage, from_moe, copy + Keys{"model.moe.experts=6"}),
         "model.moe.experts must be 4, or a multiple of 4 with train.init_experts: copy");
  expect(refusal(ExitCode::usage, from_moe, {"model.vocab=40"}),
         "to keep the stored rows and add new ones, set train.init_vocabulary: grow");
  expect(refusal(ExitCode::usage, from_moe, {"model.vocab=20", "train.init_vocabulary=grow"}),
         "model.vocab must be at least that of the stored model");
  expect(refusal(ExitCode::usage, from_moe, {"model.hidden=32"}), "but the recipe's model has");
}

TEST(InitialWeights, StoredTensorsWithoutAPlaceInTheModelAreRefused) {
  const Scratch dense_run, gelu_run, moe_run;
  const std::string from_dense = save(dense_run, dense + Keys{"model.bias=true"}),
                    from_gelu = save(gelu_run, dense + Keys{"model.mlp=gelu", "model.bias=true"}),
                    from_moe = save(moe_run, {"model.moe.bias_rate=0.05", "model.moe.dense_residual=true",
                                              "model.moe.shared_experts=1"});
  const Keys moe{"model.moe.bias_rate=0.05", "model.moe.dense_residual=true", "model.moe.shared_experts=1"};
  EXPECT_TRUE(std::isfinite(first_loss(small_recipe(start + moe), from_moe)));
  const auto expect = [](const std::string& text, const std::string& name) {
    EXPECT_NE(text.find(": contains " + name), std::string::npos) << text;
    EXPECT_NE(text.find(", which the recipe's model does not have"), std::string::npos) << text;
  };
  expect(refusal(ExitCode::usage, from_moe, moe + Keys{"model.layers=1"}), "layers.1.");
  expect(refusal(ExitCode::usage, from_moe, moe + Keys{"model.tied_embedding=true"}), "head.weight");
  expect(refusal(ExitCode::usage, from_moe, moe + Keys{"model.moe.shared_experts=0"}), "layers.0.moe.shared.");
  expect(refusal(ExitCode::usage, from_moe, moe + copy + Keys{"model.moe.dense_residual=false"}), "layers.0.mlp.");
  expect(refusal(ExitCode::usage, from_dense, copy), "layers.0.attention.");
  expect(refusal(ExitCode::usage, from_gelu,
                 copy + Keys{"model.moe.expert=gelu", "model.qkv_bias=true", "model.o_bias=true"}),
         "layers.0.mlp.down.bias");
  const std::string text = refusal(ExitCode::usage, from_moe, moe + Keys{"model.moe.bias_rate=0"});
  expect(text, "layers.0.moe.router.bias");
  EXPECT_NE(text.find("; to keep this bias, set model.moe.selection_bias: true"), std::string::npos) << text;
}

TEST(InitialWeights, ModelWithAnotherNumberOfPredictionBlocksIsRefused) {
  const Scratch without_run, with_run;
  const Keys with{"model.prediction_blocks=1"};
  const std::string from_without = save(without_run, {}), from_with = save(with_run, with);
  EXPECT_TRUE(std::isfinite(first_loss(small_recipe(start + with), from_with)));
  const std::string lost = refusal(ExitCode::usage, from_with, {}),
                    missing = refusal(ExitCode::data, from_without, with);
  EXPECT_NE(lost.find(": contains prediction.0."), std::string::npos) << lost;
  EXPECT_NE(lost.find("; set model.prediction_blocks as in the stored model"), std::string::npos) << lost;
  EXPECT_NE(missing.find("prediction.0."), std::string::npos) << missing;
}

TEST(InitialWeights, RowsOfSharedExpertsAreNotCopied) {
  const Scratch scratch;
  const Keys shared{"model.moe.expert=gelu", "model.moe.shared_experts=1", "model.moe.shared_hidden=8"};
  const std::string folder = save(scratch, shared);
  const std::string text = refusal(ExitCode::usage, folder, shared + copy + Keys{"model.moe.shared_hidden=12"});
  EXPECT_NE(text.find("layers.0.moe.shared.up.weight is [8, 16] but the recipe's model has [12, 16]"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("model.moe.experts"), std::string::npos) << text;
}

TEST(InitialWeights, KeysWithoutEffectAreRefused) {
  const auto text = [](const Keys& keys) { return message_of(ExitCode::usage, [&] { small_recipe(keys); }); };
  EXPECT_NE(text(copy).find("train.init_experts (copy) is given, but train.init_from names no weights"),
            std::string::npos);
  EXPECT_NE(text({"train.init_vocabulary=grow"}).find("train.init_vocabulary (grow) is given"), std::string::npos);
  EXPECT_NE(text(start + Keys{"train.init_noise=0.1"}).find("train.init_noise (0.1) must be 0"), std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
