// A comparison of layouts does not detect an error that is the same in all layouts. Therefore, these tests compare
// gradients with differences of losses.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
using namespace train;
using namespace verify;
namespace {

using Direction = std::map<std::string, std::vector<double>>;

// Returns the results of the first step after the initial weights are moved by `length` times `direction`.
Trajectory::Step first_step(const Recipe& recipe, const Direction& direction = {}, double length = 0) {
  const comm::SelfGroup self;
  TrainingRun run(recipe, self);
  for (const auto& p : run.instance.parameters) {
    const auto found = direction.find(p->name());
    if (found == direction.end()) continue;
    for (int64_t i = 0; i < p->local().numel(); ++i) p->local().data<double>()[i] += length * found->second[i];
  }
  StepResult result = run.step(documents_of(recipe));
  return {std::move(result), run.gradients()};
}

struct AuxLoss {
  std::string name, key;
  double layers::RouterStatistics::*sum;  // sum over micro-batches
};
void PrintTo(const AuxLoss& p, std::ostream* out) { *out << p.name; }

class AuxLosses : public testing::TestWithParam<AuxLoss> {};

// The coefficient multiplies the mean of the losses of MoE layers and micro-batches. The difference of two loss
// gradients, with and without the auxiliary loss, is the gradient of the weighted auxiliary loss. Its norm must equal
// the slope of the weighted mean of the reported losses along this gradient.
TEST_P(AuxLosses, AreWeightedByTheirCoefficientOverLayersAndMicroBatches) {
  const AuxLoss& aux_losses = GetParam();
  constexpr double coefficient = 0.5, step = 1e-5;
  const auto recipe = [&](double c) {
    return small_recipe({"model.layers=3", "model.moe.dense_layers=1", "model.mlp_hidden=12",
                         "model.moe.aux_loss.coefficient=0", "model.moe.z_loss=0", cat(aux_losses.key, "=", c)});
  };
  const double moe_layers = 2, micro_batches = 4;
  ASSERT_EQ(recipe(0).model.moe_layers(), moe_layers);
  ASSERT_EQ(recipe(0).batch.global / recipe(0).batch.micro, micro_batches);

  const Trajectory::Step with = first_step(recipe(coefficient)), without = first_step(recipe(0));
  Direction gradient;
  double squares = 0;
  for (const auto& [name, g] : with.gradients) {
    std::vector<double> added = g.to_vector<double>();
    const std::vector<double> loss = without.gradients.at(name).to_vector<double>();
    for (size_t i = 0; i < added.size(); ++i) added[i] -= loss[i], squares += added[i] * added[i];
    gradient.emplace(name, std::move(added));
  }
  const double norm = std::sqrt(squares);
  ASSERT_GT(norm, 1e-3);

  const auto weighed = [&](double length) {
    double sum = 0;
    for (const auto& layer : first_step(recipe(coefficient), gradient, length / norm).result.routers)
      sum += layer.*aux_losses.sum;
    return coefficient * sum / (moe_layers * micro_batches);
  };
  EXPECT_NEAR((weighed(step) - weighed(-step)) / (2 * step), norm, 1e-6 * norm);
}

INSTANTIATE_TEST_SUITE_P(, AuxLosses,
                         testing::Values(AuxLoss{"AuxiliaryLoss", "model.moe.aux_loss.coefficient",
                                                 &layers::RouterStatistics::aux_loss},
                                         AuxLoss{"ZLoss", "model.moe.z_loss", &layers::RouterStatistics::z_loss}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
