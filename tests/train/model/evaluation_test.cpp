// Evaluation of the held-out loss.
#include "tools/train/model/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "parallel/comm/self_group.h"
#include "tests/support/target_count.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;
constexpr double rounding = 1e-12;

// Source of the first `size` rows of a FixedSource.
class FiniteSource final : public data::Source {
 public:
  FiniteSource(const FixedSource& rows, int64_t size) : rows_(rows), size_(size) {}
  int64_t context() const override { return rows_.context(); }
  int64_t size() const override { return size_; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const data::Row& row) const override {
    ASSERT_LT(index, size_) << "a sequence past the end was read";
    rows_.fill(index, row);
  }

 private:
  const FixedSource& rows_;
  int64_t size_;
};

Evaluation evaluate_alone(const Recipe& recipe, const data::Source& source, int64_t sequences,
                          std::span<const int32_t> bytes = {}) {
  ModelInstance instance(recipe, Registry(), self);
  return evaluate(instance, recipe, source, sequences, bytes);
}

TEST(Evaluation, IsTheMeanOfTheLossesOfAllTargets) {
  const Recipe recipe = small_recipe();
  const FixedSource source = documents_of(recipe);
  const data::Batch batch = source.batch(0, 5);
  ModelInstance instance(recipe, Registry(), self);
  const MicroBatch micro = make_micro_batch(batch, 0, 5, instance.context);
  const auto policy = keep_policy();
  Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
  const Tensor logits = instance.model.logits(tape, {.batch = micro});
  double sum = 0;
  for (int64_t t = 0; t < 40; ++t) {
    const auto target = batch.targets[t];
    if (target < 0) continue;
    const auto row = values_of(logits.slice(0, t, t + 1));
    double total = 0;
    for (double l : row) total += std::exp(l);
    sum += std::log(total) - row[target];
  }
  std::vector<int32_t> bytes(31);
  double text = 0;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int32_t>(i % 4);
  for (int32_t target : batch.targets) text += target < 0 ? 0 : target % 4;

  const Evaluation e = evaluate(instance, recipe, source, 5, bytes);
  EXPECT_EQ(e.tokens, target_count(batch));
  EXPECT_EQ(e.processed, batch.count * batch.context) << "the throughput also counts tokens that are not predicted";
  EXPECT_NEAR(e.loss, sum / static_cast<double>(target_count(batch)), rounding);
  EXPECT_NEAR(e.bits_per_byte, sum / std::numbers::ln2 / text, rounding);
}

TEST(Evaluation, PaddingDoesNotChangeTheLoss) {
  // The capacity applies to each sequence separately, so only padding could make a difference.
  const std::vector<std::string> overrides{"model.moe.capacity_factor=1", "model.moe.capacity_scope=sequence"};
  const Recipe recipe = small_recipe(overrides);
  const FixedSource rows = documents_of(recipe);
  const FiniteSource five(rows, 5);
  const Evaluation expected = evaluate_alone(recipe, five, 0);
  for (int64_t micro : {1, 3, 5, 8}) {
    Recipe r = recipe;
    r.batch.micro = micro;
    const Evaluation e = evaluate_alone(r, five, 0);
    EXPECT_EQ(e.tokens, expected.tokens) << "micro " << micro;
    EXPECT_NEAR(e.loss, expected.loss, rounding) << "micro " << micro;
  }
}

TEST(Evaluation, IsTheSameUnderDataAndExpertParallelism) {
  const Recipe recipe = small_recipe({"model.moe.capacity_factor=1"});
  const FixedSource rows = documents_of(recipe);
  for (int64_t size : {1, 5, 8}) {  // including fewer sequences than ranks
    const FiniteSource source(rows, size);
    const Evaluation expected = evaluate_alone(recipe, source, 0);
    for (const auto& [ranks, ep] : {std::pair{2, 1}, {2, 2}, {4, 2}, {4, 4}})
      on_ranks(ranks, [&, ep = ep](const comm::ProcessGroup& world) {
        Recipe r = recipe;
        r.parallel.ep = ep;
        ModelInstance instance(r, Registry(), world);
        const Evaluation e = evaluate(instance, r, source, 0, {});
        EXPECT_EQ(e.tokens, expected.tokens);
        EXPECT_NEAR(e.loss, expected.loss, rounding);
      });
  }
}

TEST(Evaluation, UsesAtMostTheAvailableSequences) {
  const Recipe recipe = small_recipe();
  const FixedSource rows = documents_of(recipe);
  const FiniteSource source(rows, 3);
  EXPECT_EQ(evaluate_alone(recipe, source, 100).tokens, evaluate_alone(recipe, source, 0).tokens);
  EXPECT_LT(evaluate_alone(recipe, source, 2).tokens, evaluate_alone(recipe, source, 0).tokens);
}

// Source that records which sequences were read.
class ReadSequences final : public data::Source {
 public:
  ReadSequences(const FixedSource& rows, int64_t size) : rows_(rows, size) {}
  int64_t context() const override { return rows_.context(); }
  int64_t size() const override { return rows_.size(); }
  int64_t epoch(int64_t index) const override { return rows_.epoch(index); }
  void fill(int64_t index, const data::Row& row) const override {
    read.insert(index);
    rows_.fill(index, row);
  }
  mutable std::set<int64_t> read;

 private:
  FiniteSource rows_;
};

TEST(Evaluation, SampleIsSpreadOverTheWholeSet) {
  Recipe recipe = small_recipe();
  recipe.batch.micro = 1;  // no padding, because padding reads the first sequence
  const FixedSource rows = documents_of(recipe);
  const auto read = [&](int64_t sequences) {
    const ReadSequences source(rows, 11);
    const Evaluation e = evaluate_alone(recipe, source, sequences);
    EXPECT_EQ(e.sequences, std::ssize(source.read));
    EXPECT_EQ(e.total_sequences, 11);
    return source.read;
  };
  EXPECT_EQ(read(4), (std::set<int64_t>{0, 2, 5, 8}));
  EXPECT_EQ(read(1), std::set<int64_t>{0});
  EXPECT_EQ(std::ssize(read(0)), 11);
  EXPECT_EQ(std::ssize(read(100)), 11);
}

TEST(Evaluation, WithoutTargetsHasNoLoss) {
  const Recipe recipe = small_recipe();
  data::Batch batch = documents_of(recipe).batch(0, 8);
  std::fill(batch.targets.begin(), batch.targets.end(), data::ignored);
  const Evaluation e = evaluate_alone(recipe, FixedSource(batch), 8, std::vector<int32_t>(31, 1));
  EXPECT_EQ(e.tokens, 0);
  EXPECT_TRUE(std::isnan(e.loss)) << e.loss;
  EXPECT_EQ(e.bits_per_byte, 0);
  const telemetry::EvalMetrics metrics = metrics_of(e, 7);
  EXPECT_EQ(metrics.step, 7);
  EXPECT_FALSE(metrics.loss);
  EXPECT_FALSE(metrics.bits_per_byte);
}

}  // namespace
}  // namespace hexad::tests
