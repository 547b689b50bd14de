// Semantics of one optimizer step: losses, scopes, counting, clipping, skipping.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/comm/self_group.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"
#include "tools/train/model/evaluation.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;
constexpr double rounding = 1e-12;  // rounding of f64 sums in another order, over a whole model

// Returns the mean auxiliary loss over layers and micro-batches, as metrics.jsonl reports it.
double aux_loss(const StepResult& r, const Recipe& recipe) {
  double sum = 0;
  for (const RouterStatistics& s : r.routers) sum += s.aux_loss;
  return sum / static_cast<double>(r.routers.size()) / static_cast<double>(recipe.batch.global / recipe.batch.micro);
}

class MicroBatchSize : public testing::TestWithParam<std::string> {};

TEST_P(MicroBatchSize, DoesNotAffectTheAuxiliaryLossOfThisScope) {
  std::optional<TensorMap> gradients;
  double expected = 0;
  for (const char* micro : {"1", "2", "4", "8"}) {
    SCOPED_TRACE(testing::Message() << "batch.micro " << micro);
    // The second step of SGD also depends on the scale of the first step's gradients if gradients are not clipped.
    TrainingRun run(small_recipe({"model.moe.aux_loss.scope=" + GetParam(), std::string("batch.micro=") + micro,
                                  "optim.name=sgd", "optim.clip=0", "model.moe.aux_loss.coefficient=1"}),
                    self);
    const FixedSource source = documents_of(run.recipe);
    run.step(source);
    const StepResult result = run.step(source);
    if (!gradients) gradients = run.gradients(), expected = aux_loss(result, run.recipe);
    EXPECT_NEAR(aux_loss(result, run.recipe), expected, rounding);
    expect_close(*gradients, run.gradients(), rounding * 100);
  }
}
INSTANTIATE_TEST_SUITE_P(, MicroBatchSize, testing::Values("sequence", "global_batch"),
                         [](const auto& i) { return i.param; });

TEST(TrainStep, MicroBatchSizeDoesNotAffectExpertsThatChooseInSequences) {
  const auto trained = [](const char* micro, const char* scope) {
    TrainingRun run(
        small_recipe({"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.capacity_factor=0.5",
                      "model.moe.aux_loss.coefficient=0", std::string("model.moe.capacity_scope=") + scope,
                      std::string("batch.micro=") + micro, "optim.name=sgd", "optim.clip=0"}),
        self);
    const FixedSource source = documents_of(run.recipe);
    return trajectory(run, source, 2);
  };
  const Trajectory one = trained("1", "sequence");
  for (const char* micro : {"2", "8"}) {
    SCOPED_TRACE(testing::Message() << "batch.micro " << micro);
    expect_close(one, trained(micro, "sequence"), rounding * 100);
  }
  const Trajectory together = trained("8", "micro_batch");
  EXPECT_GT(std::abs(one.steps[0].result.loss - together.steps[0].result.loss), 1e-6)
      << "the scope micro_batch depends on the size of micro-batches";
}

TEST(TrainStep, ScopeMicroBatchDependsOnTheSizeOfMicroBatches) {
  const auto loss = [](const char* micro) {
    TrainingRun run(small_recipe({std::string("batch.micro=") + micro}), self);
    return aux_loss(run.step(documents_of(run.recipe)), run.recipe);
  };
  EXPECT_GT(std::abs(loss("1") - loss("8")), 1e-3);
}

TEST(TrainStep, FirstGlobalBatchIsComparedWithAnEvenLoad) {
  TrainingRun run(small_recipe({"model.moe.aux_loss.scope=global_batch"}), self);
  EXPECT_NEAR(aux_loss(run.step(documents_of(run.recipe)), run.recipe), 1, rounding);
}

TEST(TrainStep, RemovingATermChangesTheRoutersGradients) {
  const auto gradient = [](const std::vector<std::string>& overrides) {
    TrainingRun run(small_recipe(overrides), self);
    run.step(documents_of(run.recipe));
    return values_of(run.gradients().at("layers.0.moe.router.weight"));
  };
  const auto none = gradient({"model.moe.aux_loss.coefficient=0"});
  EXPECT_NE(none, gradient({}));
  EXPECT_NE(none, gradient({"model.moe.aux_loss.coefficient=0", "model.moe.z_loss=0.01"}));
}

TEST(TrainStep, RecomputedBlocksCountOnce) {
  const auto counts = [](const char* recompute) {
    TrainingRun run(small_recipe({std::string("recompute=") + recompute, "model.moe.capacity_factor=1"}), self);
    const StepResult r = run.step(documents_of(run.recipe));
    std::vector<int64_t> all;
    for (const auto& s : r.routers) {
      all.insert(all.end(), s.counts.begin(), s.counts.end());
      all.push_back(s.assignments), all.push_back(s.dropped);
    }
    return all;
  };
  EXPECT_EQ(counts("none"), counts("block"));
}

TEST(TrainStep, EvaluationsInBetweenChangeNothing) {
  const Recipe recipe = small_recipe({"model.moe.bias_rate=0.05", "model.moe.aux_loss.scope=global_batch"});
  const FixedSource source = documents_of(recipe);
  const Trajectory plain = one_rank_trajectory(recipe, source, 3);
  TrainingRun run(recipe, self);
  Trajectory disturbed;
  for (int s = 0; s < 3; ++s) {
    evaluate(run.instance, recipe, source, 5, {});
    StepResult result = run.step(source);
    disturbed.steps.push_back({std::move(result), run.gradients()});
  }
  disturbed.weights = run.weights(), disturbed.states = run.states();
  expect_bitwise(plain, disturbed);
}

TEST(TrainStep, RouterIsF32InABf16Model) {
  TrainingRun run(small_recipe({"train.precision=bf16"}), self);
  for (const auto& p : run.instance.parameters) {
    const bool router = p->name().ends_with("router.weight");
    EXPECT_EQ(p->local().dtype(), router ? Dtype::f32 : Dtype::bf16) << p->name();
    EXPECT_EQ(p->gradient().dtype(), Dtype::f32) << p->name();
  }
  EXPECT_TRUE(std::isfinite(run.step(documents_of(run.recipe)).loss));
}

TEST(TrainStep, BiasFollowsTheCountsOfTheWholeGlobalBatch) {
  for (const char* micro : {"1", "4"}) {  // the bias changes once per global batch
    TrainingRun run(small_recipe({"model.moe.bias_rate=0.125", std::string("batch.micro=") + micro}), self);
    std::vector<std::vector<double>> expected(2, std::vector<double>(4, 0.0));
    for (int s = 0; s < 3; ++s) {
      const StepResult r = run.step(documents_of(run.recipe));
      for (size_t l = 0; l < 2; ++l) {
        const auto& counts = r.routers[l].counts;
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 8 * 8 * 2);
        for (size_t e = 0; e < 4; ++e) expected[l][e] += counts[e] < 32 ? 0.125 : counts[e] > 32 ? -0.125 : 0;
      }
    }
    const TensorMap states = run.states();
    EXPECT_EQ(values_of(states.at("layers.0.moe.router.bias/state")), expected[0]);
    EXPECT_EQ(values_of(states.at("layers.1.moe.router.bias/state")), expected[1]);
  }
}

TEST(TrainStep, PredictionBlocksDoNotChangeTheLossOrTheEvaluation) {
  const Recipe plain = small_recipe(), predicting = small_recipe({"model.prediction_blocks=2"});
  TrainingRun one(plain, self), other(predicting, self);
  const FixedSource source = documents_of(plain);
  EXPECT_EQ(evaluate(one.instance, plain, source, 5, {}).loss,
            evaluate(other.instance, predicting, source, 5, {}).loss);
  const StepResult without = one.step(source), with = other.step(source);
  EXPECT_EQ(without.loss, with.loss);
  EXPECT_FALSE(without.prediction_loss);
  ASSERT_TRUE(with.prediction_loss);
  EXPECT_GT(*with.prediction_loss, 0);
  EXPECT_EQ(with.routers.size(), without.routers.size() + 2) << "prediction blocks have routers, too";
}

TEST(TrainStep, PredictionBlocksLearn) {
  const Recipe recipe = small_recipe({"model.prediction_blocks=1"});
  TrainingRun run(recipe, self);
  const FixedSource source = documents_of(recipe);
  const double first = *run.step(source).prediction_loss;
  StepResult last;
  for (int s = 0; s < 8; ++s) run.progress.next_sequence = 0, last = run.step(source);
  EXPECT_LT(*last.prediction_loss, first);
}

// Only one position of each sequence has a target.
TEST(TrainStep, PredictionBlocksHaveTheTargetsOfFurtherTokens) {
  const auto loss = [](const char* blocks, size_t position) {
    const Recipe recipe = small_recipe({std::string("model.prediction_blocks=") + blocks});
    data::Batch batch = documents_of(recipe).batch(0, 8);
    std::ranges::fill(batch.targets, data::ignored);
    std::ranges::fill(batch.first, 0), std::ranges::fill(batch.last, 8);
    for (size_t s = 0; s < 8; ++s) batch.targets[8 * s + position] = 5;
    TrainingRun run(recipe, self);
    return *run.step(FixedSource(batch)).prediction_loss;
  };
  EXPECT_EQ(loss("1", 0), 0)
      << "no position precedes position 0, so no position predicts its target as a further token";
  EXPECT_GT(loss("1", 1), 0);
  EXPECT_NEAR(loss("2", 1), loss("1", 1) / 2, rounding)
      << "the second block has no target, so the mean over two blocks is half of the first block's loss";
  EXPECT_GT(loss("2", 2), 0);
}

// Only the prediction loss depends on the parameters of a prediction block if there is no auxiliary loss.
TEST(TrainStep, PredictionWeightScalesTheGradients) {
  const auto gradients = [](const char* weight) {
    TrainingRun run(small_recipe({"model.moe.aux_loss.coefficient=0", "model.prediction_blocks=1",
                                  std::string("model.prediction_weight=") + weight}),
                    self);
    run.step(documents_of(run.recipe));
    return values_of(run.gradients().at("prediction.0.projection.weight"));
  };
  const auto once = gradients("0.25"), twice = gradients("0.5");
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(2 * once[i], twice[i]) << "element " << i;
}

TEST(TrainStep, LossIsTheMeanOverValidTokensOfAllMicroBatches) {
  // A batch has two sequences with one target each, and six sequences without targets. It must equal a batch of only
  // the two sequences with targets.
  const Recipe recipe = small_recipe({"model.moe.aux_loss.coefficient=0", "batch.micro=1"});
  data::Batch batch = documents_of(recipe).batch(0, 8);
  std::fill(batch.targets.begin(), batch.targets.end(), data::ignored);
  batch.targets[3] = 5, batch.targets[7 * 8 + 2] = 9;
  data::Batch pair(2, 8);
  for (auto column : {&data::Batch::ids, &data::Batch::targets, &data::Batch::first, &data::Batch::last}) {
    std::copy_n((batch.*column).begin(), 8, (pair.*column).begin());
    std::copy_n((batch.*column).begin() + 56, 8, (pair.*column).begin() + 8);
  }
  TrainingRun eight(recipe, self), two(small_recipe({"model.moe.aux_loss.coefficient=0", "batch.global=2"}), self);
  const StepResult a = eight.step(FixedSource(batch)), b = two.step(FixedSource(pair));
  EXPECT_NEAR(a.loss, b.loss, rounding);
  expect_close(two.gradients(), eight.gradients(), 100 * rounding);
}

FixedSource without_targets(const FixedSource& source) {
  data::Batch batch = source.batch(0, 8);
  std::fill(batch.targets.begin(), batch.targets.end(), data::ignored);
  return FixedSource(batch);
}

// No weight and no state changes if there are no targets, not even by weight decay, momentum, auxiliary losses or
// router biases.
TEST(TrainStep, WithoutTargetsThereIsNoLossAndNoUpdate) {
  for (const char* optimizer : {"adamw", "sgd"})
    for (const char* precision : {"f64", "f32", "bf16"}) {
      TrainingRun run(small_recipe({std::string("train.precision=") + precision, std::string("optim.name=") + optimizer,
                                    "optim.weight_decay=0.5", "model.moe.bias_rate=0.1"}),
                      self);
      const FixedSource source = documents_of(run.recipe);
      run.step(source);
      const TensorMap before = run.weights(), states = run.states();
      const StepResult r = run.step(without_targets(source));
      EXPECT_EQ(r.targets, 0);
      EXPECT_TRUE(std::isnan(r.loss)) << r.loss;
      EXPECT_FALSE(r.skipped);
      EXPECT_GT(r.grad_norm, 0) << "the auxiliary loss still has a gradient";
      EXPECT_TRUE(std::isfinite(r.grad_norm));
      expect_bitwise(before, run.weights());
      expect_bitwise(states, run.states());
    }
}

TEST(TrainStep, StepWithoutTargetsDoesNotCountAsAnUpdate) {
  const Recipe recipe = small_recipe({"optim.schedule=constant"});
  const FixedSource source = documents_of(recipe);
  TrainingRun with(recipe, self), without(recipe, self);
  with.step(without_targets(source));
  with.progress.next_sequence = 0;
  EXPECT_EQ(with.progress.skipped, 1);
  for (int s = 0; s < 2; ++s) with.step(source), without.step(source);
  expect_bitwise(without.weights(), with.weights());
}

TEST(TrainStep, NormCoversAllGradients) {
  TrainingRun run(small_recipe(), self);
  const StepResult r = run.step(documents_of(run.recipe));
  double squares = 0;
  for (const auto& [name, gradient] : run.gradients())
    for (double g : values_of(gradient)) squares += g * g;
  EXPECT_NEAR(r.grad_norm, std::sqrt(squares), rounding * r.grad_norm);
}

TEST(TrainStep, ClippingScalesTheUpdateToTheLimit) {
  for (const double clip : {0.01, 1e6, 0.0}) {
    TrainingRun run(small_recipe({"optim.name=sgd", "optim.lr=0.5", cat("optim.clip=", clip)}), self);
    const TensorMap before = run.weights();
    const StepResult r = run.step(documents_of(run.recipe));
    const double scale = clip == 0.01 ? clip / r.grad_norm : 1;
    const TensorMap after = run.weights(), gradients = run.gradients();
    for (const auto& [name, w] : before) {
      const auto was = values_of(w), is = values_of(after.at(name)), g = values_of(gradients.at(name));
      for (size_t i = 0; i < was.size(); ++i) ASSERT_NEAR(is[i], was[i] - 0.5 * scale * g[i], rounding) << name;
    }
  }
}

TEST(TrainStep, ObserverSeesTheReducedGradientsOfEachStep) {
  std::vector<TensorMap> seen;
  TrainingRun run(small_recipe({}), self, {}, [&](TrainingRun& r) { seen.push_back(r.gradients()); });
  const FixedSource source = documents_of(run.recipe);
  for (size_t steps = 1; steps <= 2; ++steps) {
    run.step(source);
    ASSERT_EQ(seen.size(), steps);
    expect_bitwise(seen.back(), run.gradients());
  }
}

// A weight is NaN, so the step is skipped. The states of the optimizer and the router are unchanged, too. After the
// weight is restored, the next step is finite.
TEST(TrainStep, NonFiniteStepChangesNothing) {
  for (const char* precision : {"f64", "f32", "bf16"}) {
    TrainingRun run(small_recipe({std::string("train.precision=") + precision, "model.moe.bias_rate=0.1"}), self);
    const FixedSource source = documents_of(run.recipe);
    run.step(source);
    Parameter& p = run.instance.parameters.find("head.weight");
    const Tensor& w = p.local();
    const Tensor saved = copy_of(w);
    kernels::kernels(run.instance.context)
        .pointwise.fill(run.instance.context.compute(), w.slice(0, 3, 4), std::nan(""));
    const TensorMap before = run.weights(), states = run.states();
    const StepResult bad = run.step(source);
    EXPECT_TRUE(bad.skipped);
    expect_bitwise(before, run.weights());
    expect_bitwise(states, run.states());
    w.copy_from(saved, run.instance.context.compute());
    const StepResult good = run.step(source);
    EXPECT_FALSE(good.skipped);
    EXPECT_TRUE(std::isfinite(good.loss));
  }
}

TEST(TrainStep, AllRanksSkipTheSameStep) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    TrainingRun run(small_recipe({"parallel.ep=2"}), world);
    if (world.rank() == 1) {
      Parameter& p = run.instance.parameters.find("layers.1.moe.experts.gate_up.weight");
      change<double>(p.local(), [](std::span<double> values) { values[0] = std::nan(""); });
    }
    EXPECT_TRUE(run.step(documents_of(run.recipe)).skipped);
  });
}

}  // namespace
}  // namespace hexad::tests
